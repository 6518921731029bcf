// Holds `abi/nixl.hpp` against the libraries of NIXL's wheel, from the other side: it opens a
// plugin of the wheel through our declaration, calls each method and looks at what comes back.
// Prints `ok`, or what is wrong.
#include "../abi/nixl.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <typeinfo>

namespace {

void
require(bool holds, const char *what) {
    if (!holds) {
        std::printf("wrong: %s\n", what);
        std::exit(1);
    }
}

#define REQUIRE(condition) require((condition), #condition)

void *
open(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::printf("wrong: %s\n", dlerror());
        std::exit(1);
    }
    return library;
}

// Lists as NIXL makes them.
template<class T> class Descriptors : public nixlDescList<T> {
public:
    explicit Descriptors(std::vector<T> list) {
        this->type = DRAM_SEG;
        this->descs = std::move(list);
    }
};

// The members that only backends read.
class Protected : public nixlBackendEngine {
public:
    static const std::string &
    agent(const nixlBackendEngine &engine) {
        return engine.*(&Protected::localAgent);
    }

    static bool
    has_telemetry(const nixlBackendEngine &engine) {
        return engine.*(&Protected::enableTelemetry_);
    }
};

nixl_status_t
wait(const nixlBackendEngine &engine, nixlBackendReqH *handle, nixl_status_t status) {
    while (status == NIXL_IN_PROG) {
        status = engine.checkXfer(handle);
    }
    return status;
}

} // namespace

int
main(int count, char **arguments) {
    REQUIRE(count == 3);
    open(arguments[1]);
    void *library = open(arguments[2]);
    auto init = reinterpret_cast<nixlBackendPlugin *(*)()>(dlsym(library, "nixl_plugin_init"));
    REQUIRE(init);
    const nixlBackendPlugin &plugin = *init();
    REQUIRE(plugin.api_version == NIXL_PLUGIN_API_VERSION);
    REQUIRE(!std::strcmp(plugin.get_plugin_name(), "UCX"));
    REQUIRE(std::strlen(plugin.get_plugin_version()) > 0);
    REQUIRE(plugin.get_backend_options().contains("num_workers"));
    REQUIRE(plugin.get_backend_mems() == (nixl_mem_list_t{DRAM_SEG, VRAM_SEG}));

    nixl_b_params_t params = plugin.get_backend_options();
    REQUIRE(params.size() > 1);
    nixlBackendInitParams how;
    how.localAgent = "an agent whose name needs memory of its own";
    how.type = "UCX";
    how.customParams = &params;
    how.enableTelemetry_ = true;
    nixlBackendEngine *const engine = plugin.create_engine(&how);
    REQUIRE(engine);
    REQUIRE(!std::strcmp(typeid(*engine).name(), "13nixlUcxEngine"));
    REQUIRE(dynamic_cast<nixlBackendEngine *>(engine) == engine);
    REQUIRE(engine->getType() == "UCX");
    REQUIRE(engine->getCustomParams() == params);
    REQUIRE(!engine->getInitErr());
    REQUIRE(Protected::agent(*engine) == how.localAgent);
    REQUIRE(Protected::has_telemetry(*engine));
    REQUIRE(engine->supportsRemote() && engine->supportsLocal() && engine->supportsNotif());
    REQUIRE(engine->getSupportedMems() == plugin.get_backend_mems());

    std::vector<char> memory(8192, 'a');
    nixlBlobDesc region;
    region.addr = reinterpret_cast<uintptr_t>(memory.data());
    region.len = memory.size();
    region.devId = 0;
    nixlBackendMD *registered = nullptr, *target = nullptr, *remote = nullptr;
    REQUIRE(engine->registerMem(region, DRAM_SEG, registered) == NIXL_SUCCESS && registered);
    REQUIRE(engine->getPublicData(registered, region.metaInfo) == NIXL_SUCCESS);
    REQUIRE(!region.metaInfo.empty());
    std::string info;
    REQUIRE(engine->getConnInfo(info) == NIXL_SUCCESS && !info.empty());
    REQUIRE(engine->connect("a stranger") == NIXL_ERR_NOT_FOUND);
    REQUIRE(engine->loadRemoteConnInfo("twin", info) == NIXL_SUCCESS);
    REQUIRE(engine->loadRemoteConnInfo("twin", info) == NIXL_ERR_INVALID_PARAM);
    REQUIRE(engine->connect("twin") == NIXL_SUCCESS);
    REQUIRE(engine->loadRemoteMD(region, DRAM_SEG, "twin", remote) == NIXL_SUCCESS && remote);
    REQUIRE(engine->connect(how.localAgent) == NIXL_SUCCESS);
    REQUIRE(engine->loadLocalMD(registered, target) == NIXL_SUCCESS && target);

    const auto piece = [&](size_t offset, nixlBackendMD *memory) {
        nixlMetaDesc piece;
        piece.addr = region.addr + offset;
        piece.len = 4096;
        piece.devId = 0;
        piece.metadataP = memory;
        return piece;
    };
    std::memset(memory.data(), 'b', 4096);
    const Descriptors<nixlMetaDesc> from({piece(0, registered)}), to({piece(4096, target)});
    nixlBackendReqH *handle = nullptr;
    nixl_opt_b_args_t options;
    options.hasNotif = true;
    options.notifMsg = "moved";
    const std::string &self = how.localAgent;
    REQUIRE(engine->prepXfer(NIXL_WRITE, from, to, self, handle, &options) == NIXL_SUCCESS);
    REQUIRE(handle);
    std::chrono::microseconds duration(-1), margin(-1);
    nixl_cost_t method;
    REQUIRE(engine->estimateXferCost(
                NIXL_WRITE, from, to, self, handle, duration, margin, method, nullptr) ==
            NIXL_SUCCESS);
    REQUIRE(duration.count() >= 0 && method == nixl_cost_t::analytical);
    const nixl_status_t posted = engine->postXfer(NIXL_WRITE, from, to, self, handle, &options);
    REQUIRE(wait(*engine, handle, posted) == NIXL_SUCCESS);
    REQUIRE(memory == std::vector<char>(8192, 'b'));
    REQUIRE(engine->genNotif(self, "alone") == NIXL_SUCCESS);
    notif_list_t all;
    while (all.size() < 2) {
        notif_list_t some;
        REQUIRE(engine->getNotifs(some) == NIXL_SUCCESS);
        all.insert(all.end(), some.begin(), some.end());
    }
    REQUIRE(all == (notif_list_t{{self, "moved"}, {self, "alone"}}));
    REQUIRE(engine->releaseReqH(handle) == NIXL_SUCCESS);

    // Views are for kernels of a GPU, so there is none to release.
    nixlMemViewH view = nullptr;
    const Descriptors<nixlRemoteMetaDesc> nothing({});
    REQUIRE(engine->prepMemView(Descriptors<nixlMetaDesc>({}), view, &options) < 0 && !view);
    REQUIRE(engine->prepMemView(nothing, view, &options) < 0 && !view);
    std::vector<nixl_query_resp_t> answers;
    const Descriptors<nixlBlobDesc> regions({region});
    REQUIRE(engine->queryMem(regions, answers) == NIXL_ERR_NOT_SUPPORTED && answers.empty());
    REQUIRE(engine->unloadMD(remote) == NIXL_SUCCESS);
    REQUIRE(engine->unloadMD(target) == NIXL_SUCCESS);
    REQUIRE(engine->deregisterMem(registered) == NIXL_SUCCESS);
    REQUIRE(engine->disconnect("twin") == NIXL_SUCCESS);
    REQUIRE(engine->disconnect("twin") == NIXL_ERR_NOT_FOUND);
    plugin.destroy_engine(engine);
    std::puts("ok");
    std::fflush(stdout);
    // The destructor of a libnl in the wheel, which a plugin of UCX uses, crashes.
    _exit(0);
}
