// SPDX-License-Identifier: Apache-2.0
// The name under which older programs include SynapseAI's types; everything is in synapse_api_types.h.
#ifndef HABANALABS_SYNAPSE_TYPES_H
#define HABANALABS_SYNAPSE_TYPES_H

#include "synapse_api_types.h"

#endif
