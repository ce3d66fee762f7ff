// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-compile/DeviceTime.h"

#include "arch/TargetDesc.h"
#include "base/StatusMacros.h"
#include "perfmodel/PartsTime.h"

namespace hpu::tools {
namespace {

constexpr size_t kSlowestOps = 20;

double us(perfmodel::Picoseconds time) {
  return static_cast<double>(time) / 1e6;
}

Json termsJson(const perfmodel::Terms& terms) {
  Json json = Json::object();
  for (size_t t = 0; t < terms.size(); ++t)
    json.set(perfmodel::termName(static_cast<perfmodel::Term>(t)), us(terms[t]));
  return json;
}

Json opJson(const perfmodel::ProgramOp& each) {
  const recipe::Program& program = *each.program;
  const perfmodel::OpBreakdown& work = each.work;
  const recipe::Op& op = program.ops[work.op];
  Json nodes = Json::array();
  for (uint32_t node : op.provenance) nodes.append(program.sourceNodes[node].name);
  return Json::object()
      .set("name", op.name)
      .set("engine", engineName(op.engine))
      .set("slices", work.commands)
      .set("busy_us", us(work.busy))
      .set("critical_us", us(work.critical))
      .set("terms_us", termsJson(work.terms))
      .set("hbm_bytes", work.bytes.hbm)
      .set("sram_bytes", work.bytes.sram)
      .set("nodes", std::move(nodes));
}

}  // namespace

Status addDeviceTime(Json& json, const Recipe& recipe) {
  const recipe::Program& program = *recipe.program();
  const arch::TargetDesc& target = arch::targetDesc(program.target);
  HPU_ASSIGN(const perfmodel::ProgramBreakdown all, perfmodel::breakDown(program, target, target.clock()));
  const perfmodel::Breakdown& work = all.whole;

  Json engines = Json::object(), critical = Json::object();
  double whole = us(work.deviceTime);
  for (Engine engine : {Engine::kMme, Engine::kTpc, Engine::kDma}) {
    auto e = static_cast<size_t>(engine);
    const perfmodel::EngineBreakdown& part = work.engines[e];
    if (engine == Engine::kDma && target.numDmas == 0) {
      engines.set(engineName(engine), Json());  // The target has none.
      continue;
    }
    engines.set(engineName(engine), Json::object()
                                        .set("commands", part.commands)
                                        .set("busy_us", us(part.busy))
                                        .set("busy_percent", whole > 0 ? 100 * us(part.busy) / whole : 0.0)
                                        .set("terms_us", termsJson(part.terms))
                                        .set("idle_us", us(part.idle))
                                        .set("hbm_bytes", part.bytes.hbm)
                                        .set("sram_bytes", part.bytes.sram));
    critical.set(engineName(engine), termsJson(work.critical[e]));
  }
  critical.set("gaps", us(work.criticalGaps));
  Json slowest = Json::array();
  for (size_t i = 0; i < std::min(kSlowestOps, all.ops.size()); ++i) slowest.append(opJson(all.ops[i]));
  json.set("engines", std::move(engines));
  json.set("critical_path_us", std::move(critical));
  json.set("slowest_ops", std::move(slowest));
  return okStatus();
}

}  // namespace hpu::tools
