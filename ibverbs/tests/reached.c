/* Lists devices with the libibverbs that the dynamic linker has found. */

#include <stdio.h>

struct ibv_device;
struct ibv_device **ibv_get_device_list(int *count);
const char *ibv_get_device_name(struct ibv_device *device);
__asm__(".symver ibv_get_device_list, ibv_get_device_list@IBVERBS_1.1");
__asm__(".symver ibv_get_device_name, ibv_get_device_name@IBVERBS_1.1");

int main(void) {
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);
    printf("%s\n", count > 0 && devices != NULL ? ibv_get_device_name(devices[0]) : "no device");
    return 0;
}
