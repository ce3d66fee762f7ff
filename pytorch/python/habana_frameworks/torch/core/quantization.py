# SPDX-License-Identifier: Apache-2.0
"""Parameters that never change. Gaudi's bridge lets its compiler fold them; here weights are inputs of graphs, and marking them changes no result."""


def _mark_params_as_const(model, **options):
    for parameter in model.parameters():
        parameter._hpu_is_const = True


def _check_params_as_const(model):
    unmarked = [name for name, parameter in model.named_parameters() if not getattr(parameter, "_hpu_is_const", False)]
    if unmarked:
        raise ValueError(f"parameters that are not marked as constants: {', '.join(unmarked)}; call _mark_params_as_const first")
