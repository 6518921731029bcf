/* Looks for an RDMA device where programs look for NICs: in /dev/infiniband and in sysfs. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"

#define CHECK(what) check(what, #what, __LINE__)

static int failures;

static void check(int holds, const char *what, int line) {
    if (!holds) {
        printf("line %d: not so: %s (%s)\n", line, what, strerror(errno));
        failures++;
    }
}

static int lists(const char *folder, const char *name) {
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int found = 0;
    if (dir == NULL)
        return 0;
    while ((entry = readdir(dir)) != NULL)
        found |= strcmp(entry->d_name, name) == 0;
    closedir(dir);
    return found;
}

/* The only entry of a folder, or nothing. */
static void only_entry(const char *folder, char *name) {
    DIR *dir = opendir(folder);
    struct dirent *entry;
    name[0] = 0;
    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            strcpy(name, entry->d_name);
    closedir(dir);
}

static int says(const char *path, const char *line) {
    char text[100] = "";
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    if (fgets(text, sizeof(text), file) == NULL)
        text[0] = 0;
    fclose(file);
    text[strcspn(text, "\n")] = 0;
    return strcmp(text, line) == 0;
}

static int resolves(const char *path, const char *wanted) {
    char found[PATH_MAX] = "";
    char *allocated = realpath(path, NULL);
    int same = realpath(path, found) != NULL && strcmp(found, wanted) == 0 && allocated != NULL &&
               strcmp(allocated, wanted) == 0;
    if (!same)
        printf("%s leads to %s\n", path, found);
    free(allocated);
    return same;
}

static void device_file(const char *path) {
    struct stat st;
    struct statx sx;
    int fd;
    memset(&st, 0, sizeof(st));
    CHECK(stat(path, &st) == 0 && S_ISCHR(st.st_mode));
    memset(&st, 0, sizeof(st));
    CHECK(lstat(path, &st) == 0 && S_ISCHR(st.st_mode));
    memset(&st, 0, sizeof(st));
    CHECK(fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode));
    CHECK(statx(AT_FDCWD, path, 0, STATX_TYPE, &sx) == 0 && S_ISCHR(sx.stx_mode));
    CHECK(access(path, R_OK | W_OK) == 0);
    CHECK(faccessat(AT_FDCWD, path, R_OK | W_OK, 0) == 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    close(fd);
    fd = openat(AT_FDCWD, path, O_RDWR);
    CHECK(fd >= 0);
    close(fd);
    CHECK(resolves(path, path));
}

/* Looks from an open directory, as hwloc does, and from the working directory. */
static void relative(const char *name) {
    char path[PATH_MAX];
    struct stat st;
    int root = open("/", O_RDONLY | O_DIRECTORY);
    int class = openat(root, "sys/class/infiniband", O_RDONLY | O_DIRECTORY);
    CHECK(root >= 0 && class >= 0);
    CHECK(faccessat(class, name, X_OK, 0) == 0);
    snprintf(path, sizeof(path), "dev/infiniband/uverbs-%s", name);
    CHECK(fstatat(root, path, &st, 0) == 0 && S_ISCHR(st.st_mode));
    CHECK(chdir("/sys/class") == 0 && stat("infiniband", &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(stat("net/lo", &st) == 0);
    close(class);
    close(root);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "braid0";
    char path[PATH_MAX], wanted[PATH_MAX], file[NAME_MAX], interface[NAME_MAX + 1];
    struct dirent **entries;
    struct stat st;
    glob_t found;

    snprintf(file, sizeof(file), "uverbs-%s", name);
    snprintf(path, sizeof(path), "/dev/infiniband/%s", file);
    device_file(path);
    device_file("/dev/infiniband/rdma_cm");
    CHECK(lists("/dev/infiniband", file));
    CHECK(access("/dev/infiniband/uverbs-none", F_OK) != 0 && errno == ENOENT);

    CHECK(lists(CLASS, name));
    CHECK(lists("/sys/class/infiniband_verbs", file));
    CHECK(scandir(CLASS, &entries, NULL, alphasort) > 2);
    snprintf(path, sizeof(path), CLASS "/%s/../..", name);
    snprintf(wanted, sizeof(wanted), "/sys/devices/virtual/braid/%s", name);
    CHECK(resolves(path, wanted));
    CHECK(stat(wanted, &st) == 0 && S_ISDIR(st.st_mode));
    snprintf(path, sizeof(path), CLASS "/%s/device/numa_node", name);
    CHECK(access(path, R_OK) == 0);
    snprintf(path, sizeof(path), CLASS "/%s/device/net", name);
    only_entry(path, interface);
    snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", interface);
    CHECK(access(path, R_OK) == 0);
    snprintf(path, sizeof(path), CLASS "/%s/node_type", name);
    CHECK(says(path, "1: CA"));
    snprintf(path, sizeof(path), CLASS "/%s/ports/1/gid_attrs/ndevs/0", name);
    CHECK(says(path, interface));
    snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/%s/ibdev", file);
    CHECK(says(path, name));
    relative(name);
    CHECK(chdir(CLASS) == 0 && access(name, X_OK) == 0);

    /* Other paths lead to their own files. */
    CHECK(stat("/sys/class/net/lo", &st) == 0);
    CHECK(resolves("/dev/../dev/null", "/dev/null"));
    CHECK(glob("/sys/class/net/lo", 0, NULL, &found) == 0);
    printf(failures == 0 ? "device files ok\n" : "device files missing\n");
    return failures != 0;
}
