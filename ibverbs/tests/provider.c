/* A program that links a provider, with the version PABI of the interface between libibverbs and
 * providers. It starts only if the dynamic linker finds that version, and in it all names below. */
#include <errno.h>
#include <stdio.h>

#define FIND_(name, version) __asm__(".symver " #name "," #name "@IBVERBS_PRIVATE_" #version)
#define FIND(name, version) FIND_(name, version)
#define REGISTER_(version) verbs_register_driver_##version
#define REGISTER(version) REGISTER_(version)

FIND(REGISTER(PABI), PABI);
FIND(ibv_cmd_get_context, PABI);
FIND(ibv_cmd_query_device, PABI);
FIND(ibv_cmd_read_comp_cntr, PABI);
FIND(ibv_wr_opcode_str, PABI);
FIND(verbs_allow_disassociate_destroy, PABI);

void REGISTER(PABI)(void *driver);
int ibv_cmd_get_context(void);
int ibv_cmd_query_device(void);
int ibv_cmd_read_comp_cntr(void);
const char *ibv_wr_opcode_str(int opcode);
extern char verbs_allow_disassociate_destroy;

int main(void)
{
    REGISTER(PABI)(NULL);
    int refused = ibv_cmd_get_context() == EOPNOTSUPP && ibv_cmd_query_device() == EOPNOTSUPP
        && ibv_cmd_read_comp_cntr() == EOPNOTSUPP && !verbs_allow_disassociate_destroy;
    printf("%s %s\n", refused ? "refused" : "driven", ibv_wr_opcode_str(2));
    return 0;
}
