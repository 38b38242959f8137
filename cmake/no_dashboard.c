/* The table of a build without the web page. */
#include "router/http/dashboard.h"

const struct router_asset router_assets[] = {{"", "", "", NULL, 0}};
const size_t router_asset_count = 0;
