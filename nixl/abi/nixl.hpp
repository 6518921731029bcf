// The backend interface of NIXL 1.5 (plugin API 1), as far as a backend meets it: names, the order
// of virtual methods, types that are passed by value or read inline. NIXL's wheel has no headers,
// so `nixl/tests` holds this declaration against the wheel's own libraries. C++20, and the string
// ABI of C++11.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#if !_GLIBCXX_USE_CXX11_ABI
#error "NIXL's wheels use the string ABI of C++11"
#endif

enum nixl_mem_t { DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG };

enum nixl_xfer_op_t { NIXL_READ, NIXL_WRITE };

enum nixl_status_t {
    NIXL_IN_PROG = 1,
    NIXL_SUCCESS = 0,
    NIXL_ERR_NOT_POSTED = -1,
    NIXL_ERR_INVALID_PARAM = -2,
    NIXL_ERR_BACKEND = -3,
    NIXL_ERR_NOT_FOUND = -4,
    NIXL_ERR_MISMATCH = -5,
    NIXL_ERR_NOT_ALLOWED = -6,
    NIXL_ERR_REPOST_ACTIVE = -7,
    NIXL_ERR_UNKNOWN = -8,
    NIXL_ERR_NOT_SUPPORTED = -9,
    NIXL_ERR_REMOTE_DISCONNECT = -10,
    NIXL_ERR_CANCELED = -11,
    NIXL_ERR_NO_TELEMETRY = -12
};

enum class nixl_thread_sync_t { none, strict, rw };

enum class nixl_cost_t { analytical = 0 };

enum class nixl_telemetry_event_type_t : uint32_t {};

using nixl_b_params_t = std::unordered_map<std::string, std::string>;
using nixl_mem_list_t = std::vector<nixl_mem_t>;
using nixl_query_resp_t = std::optional<nixl_b_params_t>;
using notif_list_t = std::vector<std::pair<std::string, std::string>>;
using nixlMemViewH = void *;

// Descriptors.

class nixlBasicDesc {
public:
    uintptr_t addr;
    size_t len;
    uint64_t devId;
};

class nixlBlobDesc : public nixlBasicDesc {
public:
    std::string metaInfo;
};

class nixlBackendMD {
public:
    explicit nixlBackendMD(bool is_private) : isPrivateMD(is_private) {}
    virtual ~nixlBackendMD() {}

protected:
    bool isPrivateMD;
};

class nixlBackendReqH {
public:
    nixlBackendReqH() {}
    virtual ~nixlBackendReqH() {}
};

class nixlMetaDesc : public nixlBasicDesc {
public:
    nixlBackendMD *metadataP;
};

struct nixlRemoteMetaDesc : public nixlMetaDesc {
    std::string remoteAgent;
};

// NIXL makes these lists; a backend reads them. Its other virtual methods are never called here.
template<class T> class nixlDescList {
public:
    virtual ~nixlDescList() = default;

    nixl_mem_t
    getType() const {
        return type;
    }

    size_t
    size() const {
        return descs.size();
    }

    const T &
    operator[](size_t index) const {
        return descs[index];
    }

protected:
    nixl_mem_t type;
    std::vector<T> descs;
};

using nixl_meta_dlist_t = nixlDescList<nixlMetaDesc>;
using nixl_remote_meta_dlist_t = nixlDescList<nixlRemoteMetaDesc>;
using nixl_reg_dlist_t = nixlDescList<nixlBlobDesc>;

// Arguments.

struct nixlBackendOptionalArgs {
    std::string notifMsg;
    bool hasNotif = false;
    std::string customParam;
};

using nixl_opt_b_args_t = nixlBackendOptionalArgs;

// Only passed on.
struct nixlAgentOptionalArgs;

class nixlBackendInitParams {
public:
    std::string localAgent;
    std::string type;
    nixl_b_params_t *customParams = nullptr;
    bool enableProgTh = false;
    uint64_t pthrDelay = 0;
    nixl_thread_sync_t syncMode = nixl_thread_sync_t::none;
    bool enableTelemetry_ = false;
};

struct nixlTelemetryEvent {
    nixl_telemetry_event_type_t eventType_;
    uint64_t value_;
};

// The engine. NIXL reads the data members inline: `backendType`, `customParams`, `initErr`, and the
// telemetry events under their mutex.

class nixlBackendEngine {
private:
    std::string backendType;
    nixl_b_params_t customParams;
    std::vector<nixlTelemetryEvent> telemetryEvents_;
    std::mutex telemetryEventsMutex_;

protected:
    bool initErr = false;
    const std::string localAgent;
    const bool enableTelemetry_;

public:
    explicit nixlBackendEngine(const nixlBackendInitParams *init)
        : backendType(init->type),
          customParams(*init->customParams),
          localAgent(init->localAgent),
          enableTelemetry_(init->enableTelemetry_) {}

    nixlBackendEngine(const nixlBackendEngine &) = delete;
    void
    operator=(const nixlBackendEngine &) = delete;

    virtual ~nixlBackendEngine() = default;

    // As NIXL reads the members.
    const std::string &
    getType() const {
        return backendType;
    }

    const nixl_b_params_t &
    getCustomParams() const {
        return customParams;
    }

    bool
    getInitErr() const {
        return initErr;
    }

    virtual bool
    supportsRemote() const = 0;
    virtual bool
    supportsLocal() const = 0;
    virtual bool
    supportsNotif() const = 0;
    virtual nixl_mem_list_t
    getSupportedMems() const = 0;

    virtual nixl_status_t
    registerMem(const nixlBlobDesc &mem, const nixl_mem_t &kind, nixlBackendMD *&out) = 0;
    virtual nixl_status_t
    deregisterMem(nixlBackendMD *meta) = 0;

    virtual nixl_status_t
    connect(const std::string &remote_agent) = 0;
    virtual nixl_status_t
    disconnect(const std::string &remote_agent) = 0;

    virtual nixl_status_t
    unloadMD(nixlBackendMD *input) = 0;

    virtual nixl_status_t
    prepXfer(const nixl_xfer_op_t &operation,
             const nixl_meta_dlist_t &local,
             const nixl_meta_dlist_t &remote,
             const std::string &remote_agent,
             nixlBackendReqH *&handle,
             const nixl_opt_b_args_t *options) const = 0;
    virtual nixl_status_t
    postXfer(const nixl_xfer_op_t &operation,
             const nixl_meta_dlist_t &local,
             const nixl_meta_dlist_t &remote,
             const std::string &remote_agent,
             nixlBackendReqH *&handle,
             const nixl_opt_b_args_t *options) const = 0;
    virtual nixl_status_t
    checkXfer(nixlBackendReqH *handle) const = 0;
    virtual nixl_status_t
    releaseReqH(nixlBackendReqH *handle) const = 0;

    virtual nixl_status_t
    prepMemView(const nixl_remote_meta_dlist_t &, nixlMemViewH &, const nixl_opt_b_args_t *) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    virtual nixl_status_t
    prepMemView(const nixl_meta_dlist_t &, nixlMemViewH &, const nixl_opt_b_args_t *) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    virtual void
    releaseMemView(nixlMemViewH) const {}

    virtual nixl_status_t
    getPublicData(const nixlBackendMD *, std::string &) const {
        return NIXL_ERR_BACKEND;
    }
    virtual nixl_status_t
    getConnInfo(std::string &) const {
        return NIXL_ERR_BACKEND;
    }
    virtual nixl_status_t
    loadRemoteConnInfo(const std::string &, const std::string &) {
        return NIXL_ERR_BACKEND;
    }
    virtual nixl_status_t
    loadRemoteMD(const nixlBlobDesc &, const nixl_mem_t &, const std::string &, nixlBackendMD *&) {
        return NIXL_ERR_BACKEND;
    }
    virtual nixl_status_t
    loadLocalMD(nixlBackendMD *, nixlBackendMD *&) {
        return NIXL_ERR_BACKEND;
    }

    virtual nixl_status_t
    getNotifs(notif_list_t &) {
        return NIXL_ERR_BACKEND;
    }
    virtual nixl_status_t
    genNotif(const std::string &, const std::string &) const {
        return NIXL_ERR_BACKEND;
    }

    virtual nixl_status_t
    queryMem(const nixl_reg_dlist_t &, std::vector<nixl_query_resp_t> &) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    virtual nixl_status_t
    estimateXferCost(const nixl_xfer_op_t &,
                     const nixl_meta_dlist_t &,
                     const nixl_meta_dlist_t &,
                     const std::string &,
                     nixlBackendReqH *const &,
                     std::chrono::microseconds &,
                     std::chrono::microseconds &,
                     nixl_cost_t &,
                     const nixlAgentOptionalArgs *) const {
        return NIXL_ERR_NOT_SUPPORTED;
    }
};

// The table that `nixl_plugin_init` returns.

constexpr int NIXL_PLUGIN_API_VERSION = 1;

class nixlBackendPlugin {
public:
    int api_version;
    nixlBackendEngine *(*create_engine)(const nixlBackendInitParams *);
    void (*destroy_engine)(nixlBackendEngine *);
    const char *(*get_plugin_name)();
    const char *(*get_plugin_version)();
    nixl_b_params_t (*get_backend_options)();
    nixl_mem_list_t (*get_backend_mems)();
};
