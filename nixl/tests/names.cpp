// A backend of our declaration under the name of one in NIXL's wheel, so that the symbols of its
// table of virtual methods can be compared with the wheel's.
#include "../abi/nixl.hpp"

class nixlUcxEngine : public nixlBackendEngine {
public:
    explicit nixlUcxEngine(const nixlBackendInitParams *init) : nixlBackendEngine(init) {}
    ~nixlUcxEngine() override;
    bool
    supportsRemote() const override;
    bool
    supportsLocal() const override;
    bool
    supportsNotif() const override;
    nixl_mem_list_t
    getSupportedMems() const override;
    nixl_status_t
    registerMem(const nixlBlobDesc &, const nixl_mem_t &, nixlBackendMD *&) override;
    nixl_status_t
    deregisterMem(nixlBackendMD *) override;
    nixl_status_t
    connect(const std::string &) override;
    nixl_status_t
    disconnect(const std::string &) override;
    nixl_status_t
    unloadMD(nixlBackendMD *) override;
    nixl_status_t
    prepXfer(const nixl_xfer_op_t &,
             const nixl_meta_dlist_t &,
             const nixl_meta_dlist_t &,
             const std::string &,
             nixlBackendReqH *&,
             const nixl_opt_b_args_t *) const override;
    nixl_status_t
    postXfer(const nixl_xfer_op_t &,
             const nixl_meta_dlist_t &,
             const nixl_meta_dlist_t &,
             const std::string &,
             nixlBackendReqH *&,
             const nixl_opt_b_args_t *) const override;
    nixl_status_t
    checkXfer(nixlBackendReqH *) const override;
    nixl_status_t
    releaseReqH(nixlBackendReqH *) const override;
};

nixlUcxEngine::~nixlUcxEngine() = default;
