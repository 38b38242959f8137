/* router/http/routes.c - every route of the router and the role it asks for. */
#include "chat/codec.h"
#include "router/http/api.h"

static const struct router_route routes[] = {
    {{"GET", "v1/models"}, ROUTER_API, router_api_v1_models},
    {{"GET", "v1/models/**"}, ROUTER_API, router_api_v1_model},
    {{"POST", "v1/messages/count_tokens"}, ROUTER_API, router_api_count},
    {{"GET", "v1/responses/*"}, ROUTER_API, router_api_response},
    {{"DELETE", "v1/responses/*"}, ROUTER_API, router_api_response_delete},
    {{"GET", "v1/responses/*/input_items"}, ROUTER_API, router_api_response_items},
    {{"POST", "v1/responses/*/cancel"}, ROUTER_API, router_api_response_cancel},
    {{"GET", "v0/explain"}, ROUTER_API, router_api_explain},

    {{"GET", "api/version"}, ROUTER_API, router_api_ollama_version},
    {{"GET", "api/tags"}, ROUTER_API, router_api_ollama_tags},
    {{"GET", "api/ps"}, ROUTER_API, router_api_ollama_ps},
    {{"POST", "api/show"}, ROUTER_API, router_api_ollama_show},
    {{"POST", "api/pull"}, ROUTER_ADMIN, router_api_ollama_pull},
    {{"DELETE", "api/delete"}, ROUTER_ADMIN, router_api_ollama_delete},

    {{"GET", "v0/whoami"}, ROUTER_PUBLIC, router_api_whoami},
    {{"POST", "v0/session"}, ROUTER_PUBLIC, router_api_sign_in},
    {{"DELETE", "v0/session"}, ROUTER_API, router_api_sign_out},

    {{"POST", "v0/models/register"}, ROUTER_ADMIN, router_api_register},
    {{"GET", "v0/models"}, ROUTER_ADMIN, router_api_models},
    {{"GET", "v0/models/registry"}, ROUTER_NODE, router_api_registry},
    {{"GET", "v0/models/registry/**/manifest.json"}, ROUTER_NODE, router_api_manifest},
    {{"POST", "v0/models/**/load"}, ROUTER_ADMIN, router_api_model_action},
    {{"POST", "v0/models/**/unload"}, ROUTER_ADMIN, router_api_model_action},
    {{"POST", "v0/models/**/pin"}, ROUTER_ADMIN, router_api_model_action},
    {{"POST", "v0/models/**/unpin"}, ROUTER_ADMIN, router_api_model_action},
    {{"POST", "v0/models/**/replicas"}, ROUTER_ADMIN, router_api_model_action},
    {{"PATCH", "v0/models/**"}, ROUTER_ADMIN, router_api_model_change},
    {{"DELETE", "v0/models/**"}, ROUTER_ADMIN, router_api_delete_model},

    {{"POST", "v0/nodes/join"}, ROUTER_NODE, router_api_join},
    {{"POST", "v0/nodes/*/heartbeat"}, ROUTER_NODE, router_api_heartbeat},
    {{"POST", "v0/nodes/tokens"}, ROUTER_ADMIN, router_api_node_token},
    {{"GET", "v0/nodes"}, ROUTER_ADMIN, router_api_nodes},
    {{"POST", "v0/nodes/*/drain"}, ROUTER_ADMIN, router_api_node_change},
    {{"POST", "v0/nodes/*/undrain"}, ROUTER_ADMIN, router_api_node_change},
    {{"DELETE", "v0/nodes/*"}, ROUTER_ADMIN, router_api_node_change},
    {{"GET", "v0/nodes/*/models"}, ROUTER_ADMIN, router_api_node_forward},
    {{"GET", "v0/nodes/*/engines"}, ROUTER_ADMIN, router_api_node_forward},
    {{"GET", "v0/nodes/*/memory"}, ROUTER_ADMIN, router_api_node_forward},
    {{"GET", "v0/nodes/*/logs"}, ROUTER_ADMIN, router_api_node_forward},
    {{"POST", "v0/nodes/*/engines/*/reload"}, ROUTER_ADMIN, router_api_node_forward},

    {{"GET", "v0/keys"}, ROUTER_ADMIN, router_api_keys},
    {{"POST", "v0/keys"}, ROUTER_ADMIN, router_api_key_create},
    {{"PATCH", "v0/keys/*"}, ROUTER_ADMIN, router_api_key_change},
    {{"DELETE", "v0/keys/*"}, ROUTER_ADMIN, router_api_key_revoke},
    {{"GET", "v0/usage"}, ROUTER_ADMIN, router_api_usage},
    {{"GET", "v0/requests"}, ROUTER_ADMIN, router_api_requests},
    {{"GET", "v0/requests/*"}, ROUTER_ADMIN, router_api_one_request},
    {{"GET", "v0/audit"}, ROUTER_ADMIN, router_api_audit},
    {{"GET", "v0/logs"}, ROUTER_ADMIN, router_api_logs},
    {{"GET", "v0/events"}, ROUTER_ADMIN, router_api_events},
    {{"GET", "v0/stats"}, ROUTER_ADMIN, router_api_stats},
    {{"GET", "v0/history"}, ROUTER_ADMIN, router_api_history},
    {{"GET", "v0/alerts"}, ROUTER_ADMIN, router_api_alerts},
    {{"POST", "v0/alerts/*/silence"}, ROUTER_ADMIN, router_api_alert_silence},
    {{"DELETE", "v0/alerts/*/silence"}, ROUTER_ADMIN, router_api_alert_unsilence},
    {{"GET", "metrics"}, ROUTER_METRICS, router_api_metrics},
    {{"GET", "health"}, ROUTER_PUBLIC, router_api_health},
    {{"GET", "livez"}, ROUTER_PUBLIC, router_api_livez},
    {{"GET", "readyz"}, ROUTER_PUBLIC, router_api_readyz},
    {{"GET", ""}, ROUTER_PUBLIC, router_api_dashboard},
    {{"GET", "assets/**"}, ROUTER_PUBLIC, router_api_asset},
#define X(path, codec) {{"POST", path}, ROUTER_API, router_api_complete},
    CHAT_CODECS(X)
#undef X
};

const struct net_routes router_routes = {
    .rows = routes,
    .row_size = sizeof(routes[0]),
    .count = sizeof(routes) / sizeof(routes[0]),
    .has_options = true,
};
