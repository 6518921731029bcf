// The C++ side of the plugin: NIXL's classes on one side, the functions of `src/abi.rs` on the
// other. Nothing is decided here.
#include "nixl.hpp"

#include <dlfcn.h>

#include <memory>

extern "C" {
struct braid_bytes {
    const char *data;
    size_t len;
};

// Receives one or two strings. It must not throw: Rust calls it.
using braid_sink = void (*)(void *to, braid_bytes first, braid_bytes second);

struct braid_opening {
    braid_bytes agent;
    braid_bytes nixl;
    const braid_bytes *params; // names and values in turn
    size_t param_count;
    bool has_progress_thread;
};

struct braid_pair {
    uint64_t local_addr;
    uint64_t remote_addr;
    uint64_t len;
    const void *local;
    const void *remote;
};

struct braid_posting {
    braid_bytes notification;
    bool has_notification;
};

struct braid_memory {
    uint64_t addr;
    size_t len;
    uint64_t device;
    int kind;
};

struct braid_estimate {
    int64_t duration; // microseconds
    int64_t margin;
};

void *
braid_nixl_open(const braid_opening *opening);
void
braid_nixl_close(void *backend);
void
braid_nixl_options(void *to, braid_sink sink);
bool
braid_nixl_has_cuda();
int
braid_nixl_register(void *backend, const braid_memory *memory, void **out);
int
braid_nixl_query(void *backend, const braid_memory *memory, void *to, braid_sink sink);
int
braid_nixl_estimate(void *backend, const void *transfer, braid_estimate *out);
int
braid_nixl_deregister(void *backend, void *region);
int
braid_nixl_public_data(const void *region, void *to, braid_sink sink);
int
braid_nixl_conn_info(void *backend, void *to, braid_sink sink);
int
braid_nixl_load_conn_info(void *backend, braid_bytes agent, braid_bytes info);
int
braid_nixl_load_remote(void *backend, int kind, braid_bytes agent, braid_bytes data, void **out);
int
braid_nixl_load_local(void *backend, const void *region, void **out);
int
braid_nixl_unload(void *target);
int
braid_nixl_connect(void *backend, braid_bytes agent);
int
braid_nixl_disconnect(void *backend, braid_bytes agent);
int
braid_nixl_prepare(
    void *backend, int operation, braid_bytes agent, const braid_pair *pairs, size_t n, void **out);
int
braid_nixl_post(void *backend, void *transfer, const braid_posting *posting);
int
braid_nixl_check(void *backend, void *transfer);
int
braid_nixl_release(void *backend, void *transfer);
int
braid_nixl_notifications(void *backend, void *to, braid_sink sink);
int
braid_nixl_notify(void *backend, braid_bytes agent, braid_bytes message);
}

namespace {

braid_bytes
bytes(const std::string &text) {
    return {text.data(), text.size()};
}

nixl_status_t
status(int code) {
    return static_cast<nixl_status_t>(code);
}

void
to_string(void *to, braid_bytes text, braid_bytes) noexcept {
    static_cast<std::string *>(to)->assign(text.data, text.len);
}

void
to_list(void *to, braid_bytes agent, braid_bytes message) noexcept {
    static_cast<notif_list_t *>(to)->emplace_back(std::string(agent.data, agent.len),
                                                  std::string(message.data, message.len));
}

void
to_params(void *to, braid_bytes name, braid_bytes value) noexcept {
    static_cast<nixl_b_params_t *>(to)->emplace(std::string(name.data, name.len),
                                                std::string(value.data, value.len));
}

nixl_mem_list_t
supported_mems() {
    return braid_nixl_has_cuda() ? nixl_mem_list_t{DRAM_SEG, VRAM_SEG} : nixl_mem_list_t{DRAM_SEG};
}

// Registered memory, or memory that transfers address.
class Memory final : public nixlBackendMD {
public:
    Memory(bool is_private, void *held) : nixlBackendMD(is_private), held(held) {}

    static void *
    of(const nixlBackendMD *memory) {
        return memory ? static_cast<const Memory *>(memory)->held : nullptr;
    }

    void *const held;
};

class Transfer final : public nixlBackendReqH {
public:
    explicit Transfer(void *held) : held(held) {}

    static void *
    of(const nixlBackendReqH *transfer) {
        return transfer ? static_cast<const Transfer *>(transfer)->held : nullptr;
    }

    void *const held;
};

class Engine final : public nixlBackendEngine {
public:
    Engine(const nixlBackendInitParams *init, const char *nixl) : nixlBackendEngine(init) {
        std::vector<braid_bytes> params;
        for (const auto &[name, value] : *init->customParams) {
            params.push_back(bytes(name));
            params.push_back(bytes(value));
        }
        const std::string path = nixl ? nixl : "";
        const braid_opening opening = {bytes(init->localAgent),
                                       bytes(path),
                                       params.data(),
                                       params.size() / 2,
                                       init->enableProgTh};
        backend = braid_nixl_open(&opening);
        initErr = !backend;
    }

    ~Engine() override {
        braid_nixl_close(backend);
    }

    bool
    supportsRemote() const override {
        return true;
    }

    bool
    supportsLocal() const override {
        return true;
    }

    bool
    supportsNotif() const override {
        return true;
    }

    nixl_mem_list_t
    getSupportedMems() const override {
        return supported_mems();
    }

    nixl_status_t
    registerMem(const nixlBlobDesc &mem, const nixl_mem_t &kind, nixlBackendMD *&out) override {
        void *held = nullptr;
        const braid_memory memory = {mem.addr, mem.len, mem.devId, kind};
        const int code = braid_nixl_register(backend, &memory, &held);
        return give(code, true, held, out);
    }

    nixl_status_t
    deregisterMem(nixlBackendMD *meta) override {
        const std::unique_ptr<nixlBackendMD> owned(meta);
        return status(braid_nixl_deregister(backend, Memory::of(meta)));
    }

    nixl_status_t
    connect(const std::string &remote_agent) override {
        return status(braid_nixl_connect(backend, bytes(remote_agent)));
    }

    nixl_status_t
    disconnect(const std::string &remote_agent) override {
        return status(braid_nixl_disconnect(backend, bytes(remote_agent)));
    }

    nixl_status_t
    unloadMD(nixlBackendMD *input) override {
        const std::unique_ptr<nixlBackendMD> owned(input);
        return status(braid_nixl_unload(Memory::of(input)));
    }

    nixl_status_t
    prepXfer(const nixl_xfer_op_t &operation,
             const nixl_meta_dlist_t &local,
             const nixl_meta_dlist_t &remote,
             const std::string &remote_agent,
             nixlBackendReqH *&handle,
             const nixl_opt_b_args_t *) const override {
        if (local.size() != remote.size()) {
            return NIXL_ERR_MISMATCH;
        }
        std::vector<braid_pair> pairs(local.size());
        for (size_t i = 0; i < pairs.size(); ++i) {
            const nixlMetaDesc &here = local[i], &there = remote[i];
            if (here.len != there.len) {
                return NIXL_ERR_MISMATCH;
            }
            pairs[i] = {here.addr,
                        there.addr,
                        here.len,
                        Memory::of(here.metadataP),
                        Memory::of(there.metadataP)};
        }
        void *held = nullptr;
        const int code = braid_nixl_prepare(
            backend, operation, bytes(remote_agent), pairs.data(), pairs.size(), &held);
        if (code == NIXL_SUCCESS) {
            handle = new Transfer(held);
        }
        return status(code);
    }

    // NIXL passes the lists of `prepXfer` again.
    nixl_status_t
    postXfer(const nixl_xfer_op_t &,
             const nixl_meta_dlist_t &,
             const nixl_meta_dlist_t &,
             const std::string &,
             nixlBackendReqH *&handle,
             const nixl_opt_b_args_t *options) const override {
        braid_posting posting = {{nullptr, 0}, false};
        if (options && options->hasNotif) {
            posting = {bytes(options->notifMsg), true};
        }
        return status(braid_nixl_post(backend, Transfer::of(handle), &posting));
    }

    nixl_status_t
    checkXfer(nixlBackendReqH *handle) const override {
        return status(braid_nixl_check(backend, Transfer::of(handle)));
    }

    nixl_status_t
    releaseReqH(nixlBackendReqH *handle) const override {
        const std::unique_ptr<nixlBackendReqH> owned(handle);
        return status(braid_nixl_release(backend, Transfer::of(handle)));
    }

    nixl_status_t
    getPublicData(const nixlBackendMD *meta, std::string &out) const override {
        return status(braid_nixl_public_data(Memory::of(meta), &out, to_string));
    }

    nixl_status_t
    getConnInfo(std::string &out) const override {
        return status(braid_nixl_conn_info(backend, &out, to_string));
    }

    nixl_status_t
    loadRemoteConnInfo(const std::string &agent, const std::string &info) override {
        return status(braid_nixl_load_conn_info(backend, bytes(agent), bytes(info)));
    }

    nixl_status_t
    loadRemoteMD(const nixlBlobDesc &input,
                 const nixl_mem_t &kind,
                 const std::string &agent,
                 nixlBackendMD *&out) override {
        void *held = nullptr;
        const int code =
            braid_nixl_load_remote(backend, kind, bytes(agent), bytes(input.metaInfo), &held);
        return give(code, false, held, out);
    }

    nixl_status_t
    loadLocalMD(nixlBackendMD *input, nixlBackendMD *&out) override {
        void *held = nullptr;
        const int code = braid_nixl_load_local(backend, Memory::of(input), &held);
        return give(code, false, held, out);
    }

    nixl_status_t
    getNotifs(notif_list_t &list) override {
        return status(braid_nixl_notifications(backend, &list, to_list));
    }

    nixl_status_t
    genNotif(const std::string &agent, const std::string &message) const override {
        return status(braid_nixl_notify(backend, bytes(agent), bytes(message)));
    }

    nixl_status_t
    queryMem(const nixl_reg_dlist_t &list, std::vector<nixl_query_resp_t> &answers) const override {
        std::vector<nixl_query_resp_t> found;
        for (size_t i = 0; i < list.size(); ++i) {
            const braid_memory memory = {list[i].addr, list[i].len, list[i].devId, list.getType()};
            nixl_b_params_t params;
            const int code = braid_nixl_query(backend, &memory, &params, to_params);
            if (code != NIXL_SUCCESS) {
                return status(code);
            }
            found.push_back(params.empty() ? nixl_query_resp_t() : nixl_query_resp_t(params));
        }
        answers = std::move(found);
        return NIXL_SUCCESS;
    }

    nixl_status_t
    estimateXferCost(const nixl_xfer_op_t &,
                     const nixl_meta_dlist_t &,
                     const nixl_meta_dlist_t &,
                     const std::string &,
                     nixlBackendReqH *const &handle,
                     std::chrono::microseconds &duration,
                     std::chrono::microseconds &margin,
                     nixl_cost_t &method,
                     const nixlAgentOptionalArgs *) const override {
        braid_estimate estimate = {};
        const int code = braid_nixl_estimate(backend, Transfer::of(handle), &estimate);
        if (code == NIXL_SUCCESS) {
            duration = std::chrono::microseconds(estimate.duration);
            margin = std::chrono::microseconds(estimate.margin);
            // NIXL has no word for measured costs.
            method = nixl_cost_t::analytical;
        }
        return status(code);
    }

private:
    static nixl_status_t
    give(int code, bool is_private, void *held, nixlBackendMD *&out) {
        if (code == NIXL_SUCCESS) {
            out = new Memory(is_private, held);
        }
        return status(code);
    }

    void *backend = nullptr;
};

nixlBackendEngine *
create(const nixlBackendInitParams *init) {
    // The caller is libnixl.
    Dl_info caller = {};
    dladdr(__builtin_return_address(0), &caller);
    return new Engine(init, caller.dli_fname);
}

void
destroy(nixlBackendEngine *engine) {
    delete engine;
}

nixl_b_params_t
options() {
    nixl_b_params_t params;
    braid_nixl_options(&params, to_params);
    return params;
}

} // namespace

extern "C" nixlBackendPlugin *
braid_nixl_plugin() {
    static nixlBackendPlugin plugin = {NIXL_PLUGIN_API_VERSION,
                                       create,
                                       destroy,
                                       [] { return "BRAID"; },
                                       [] { return BRAID_VERSION; },
                                       options,
                                       supported_mems};
    return &plugin;
}
