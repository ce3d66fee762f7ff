// SPDX-License-Identifier: Apache-2.0
#include "src/bindings/python/Program.h"

#include <algorithm>
#include <chrono>

#include "hpu/trace.h"
#include "tools/common/RunTimes.h"

namespace hpu::python {
namespace {

/// Whether it is `wanted`, where free dimensions take any size.
template <typename Sizes>
bool fits(const Sizes* sizes, size_t rank, const Shape& wanted) {
  if (rank != wanted.size()) return false;
  for (size_t i = 0; i < rank; ++i)
    if (wanted[i] != kDynamic && wanted[i] != static_cast<int64_t>(sizes[i])) return false;
  return true;
}

/// As shape_text() of the package writes it.
std::string shapeText(const Shape& shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : "x") + (size == kDynamic ? "?" : std::to_string(size));
  return text.empty() ? "scalar" : text;
}

/// Makes a buffer as large as so many bytes; work in flight owns what it uses.
Status reserve(Device& device, const std::string& name, int64_t bytes, Buffer& buffer) {
  bytes = std::max<int64_t>(bytes, 1);
  if (buffer.valid() && buffer.size() >= bytes) return okStatus();
  auto made = device.allocate(bytes, name);
  if (!made.ok()) return made.status();
  buffer = std::move(made).value();
  return okStatus();
}

}  // namespace

Program::Program(std::shared_ptr<OpenDevice> device, const Recipe& recipe, std::vector<py::dtype> inputTypes,
                 std::vector<py::dtype> outputTypes)
    : device_(std::move(device)),
      recipe_(recipe),
      states_(recipe.states()),
      valueInputs_(recipe.valueInputs()),
      fixed_(recipe.dims().empty()),
      inputBuffers_(recipe.inputs().size()),
      outputBuffers_(recipe.outputs().size()) {
  const auto describe = [](const std::vector<TensorInfo>& infos, std::vector<py::dtype>& types) {
    if (types.size() != infos.size()) throw py::value_error("a program takes the type of each input and output");
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < infos.size(); ++i)
      tensors.push_back({py::str(infos[i].name), std::move(types[i]), infos[i].type.shape});
    return tensors;
  };
  inputs_ = describe(recipe.inputs(), inputTypes);
  outputs_ = describe(recipe.outputs(), outputTypes);
  for (size_t i = 0; i < states_.size(); ++i)
    inputs_[states_[i].input].state = outputs_[states_[i].output].state = static_cast<int>(i);
  GilReleased released;
  auto start = std::chrono::steady_clock::now();
  executable_ = take(Executable::load(device_->device, recipe_));
  loadMs_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  lane_ = std::make_shared<Lane>(device_->device, recipe_.name());
  if (!fixed_) return;
  const auto reserveAll = [&](const std::vector<Tensor>& tensors, const std::vector<TensorInfo>& infos,
                              std::vector<Buffer>& buffers) {
    for (size_t i = 0; i < infos.size(); ++i)
      if (tensors[i].state < 0) check(reserve(device_->device, infos[i].name, infos[i].type.bytes(), buffers[i]));
  };
  reserveAll(inputs_, recipe_.inputs(), inputBuffers_);
  reserveAll(outputs_, recipe_.outputs(), outputBuffers_);
}

bool Program::isReady(PyObject* given, const Tensor& input) const {
  if (Py_TYPE(given) != py::detail::npy_api::get().PyArray_Type_) return false;  // Others have a say in what they are.
  const auto array = py::reinterpret_borrow<py::array>(given);
  return array.dtype().is(input.type) && (array.flags() & py::array::c_style) != 0 &&
         fits(array.shape(), static_cast<size_t>(array.ndim()), input.shape);
}

py::object Program::ready(const py::object& given, bool held) const {
  const bool byName = PyDict_CheckExact(given.ptr());
  if (!byName && !PyTuple_CheckExact(given.ptr())) return py::none();
  const size_t count = inputs_.size() - (held ? states_.size() : 0);
  if (py::len(given) != count) return py::none();
  py::list arrays(count);
  size_t next = 0;
  for (const Tensor& input : inputs_) {
    if (held && input.state >= 0) continue;
    PyObject* array = byName ? PyDict_GetItemWithError(given.ptr(), input.name.ptr())
                             : PyTuple_GET_ITEM(given.ptr(), static_cast<py::ssize_t>(next));
    if (!array && PyErr_Occurred()) throw py::error_already_set();
    if (!array || !isReady(array, input)) return py::none();
    PyList_SET_ITEM(arrays.ptr(), static_cast<py::ssize_t>(next++), py::handle(array).inc_ref().ptr());
  }
  return arrays;
}

std::vector<TensorInfo> Program::outputsFor(const std::vector<Shape>& inputs, const InputValues& values) const {
  return take(executable_.outputs(inputs, values));
}

/// The elements of the inputs that say sizes; of the arrays of inputs that are no states.
InputValues Program::valuesOf(const std::vector<py::array>& inputs) const {
  InputValues values(inputs_.size());
  for (int input : valueInputs_) {
    const auto i = static_cast<size_t>(input);
    if (inputs_[i].state >= 0) continue;
    size_t at = 0;
    for (size_t before = 0; before < i; ++before) at += inputs_[before].state < 0 ? 1 : 0;
    const py::array& array = inputs[at];
    for (py::ssize_t e = 0; e < array.size(); ++e) {
      if (array.itemsize() == sizeof(int64_t))
        values[i].push_back(static_cast<const int64_t*>(array.data())[e]);
      else if (array.itemsize() == sizeof(int32_t))
        values[i].push_back(static_cast<const int32_t*>(array.data())[e]);
    }
  }
  return values;
}

Program::Call Program::prepare(const std::vector<py::array>& inputs, const StateMemory* state) const {
  if (inputs.size() + states_.size() != inputs_.size())
    throw py::value_error("a run takes an array for each input that is no state");
  if ((state ? state->buffers.size() : 0) != states_.size())
    throw py::value_error("a run takes the memory of each state");
  Call call;
  call.state = state;
  auto array = inputs.begin();
  std::vector<Shape> shapes;
  shapes.reserve(inputs_.size());
  for (const Tensor& input : inputs_) {
    if (input.state >= 0) {
      const Shape& shape = state->shapes[static_cast<size_t>(input.state)];
      if (!fits(shape.data(), shape.size(), input.shape))
        throw StatusError(invalidArgument("the state '" + input.name.cast<std::string>() + "' is " + shapeText(shape) +
                                          " now, and the recipe takes " + shapeText(input.shape)));
      shapes.push_back(shape);
      continue;
    }
    if ((array->flags() & py::array::c_style) == 0 || array->itemsize() != input.type.itemsize() ||
        !fits(array->shape(), static_cast<size_t>(array->ndim()), input.shape))
      throw py::value_error("the array of '" + input.name.cast<std::string>() + "' is not dense memory of its type");
    shapes.emplace_back(array->shape(), array->shape() + array->ndim());
    ++array;
  }
  if (!fixed_) {
    call.values = valuesOf(inputs);
    call.outputInfos = outputsFor(shapes, call.values);
    call.shapes = std::move(shapes);
  } else {
    call.outputInfos = recipe_.outputs();
  }
  call.inputs = inputs;
  call.outputs.reserve(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].state < 0) call.outputs.emplace_back(outputs_[i].type, call.outputInfos[i].type.shape);
  return call;
}

Event Program::enqueue(const Call& call, const Event* marks) {
  // Arrays are looked at here, with the GIL.
  struct Copy {
    size_t index;
    void* memory;
    int64_t bytes;
  };
  std::vector<Copy> from, to;
  std::vector<py::object> kept;
  const auto copiesOf = [&](const std::vector<Tensor>& tensors, const std::vector<py::array>& arrays,
                            std::vector<Copy>& copies) {
    auto array = arrays.begin();
    copies.reserve(arrays.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].state >= 0) continue;
      copies.push_back({i, const_cast<void*>(array->data()), static_cast<int64_t>(array->nbytes())});
      kept.push_back(*array++);
    }
  };
  kept.reserve(call.inputs.size() + call.outputs.size());
  copiesOf(inputs_, call.inputs, from);
  copiesOf(outputs_, call.outputs, to);
  auto work = [&](Stream& stream) -> Status {
    auto mark = [&](tools::RunMark which) { return marks ? stream.record(marks[which]) : okStatus(); };
    Status status;
    for (const Copy& copy : from)
      if (status.ok())
        status = reserve(device_->device, recipe_.inputs()[copy.index].name, copy.bytes, inputBuffers_[copy.index]);
    for (const Copy& copy : to)
      if (status.ok())
        status = reserve(device_->device, recipe_.outputs()[copy.index].name, copy.bytes, outputBuffers_[copy.index]);
    if (status.ok()) status = mark(tools::kRunStart);
    for (const Copy& copy : from)
      if (status.ok() && copy.bytes) status = stream.copyToDevice(inputBuffers_[copy.index], copy.memory, copy.bytes);
    if (status.ok()) status = mark(tools::kRunUploaded);
    if (!status.ok()) return status;
    std::vector<Buffer> in = inputBuffers_, out = outputBuffers_;
    for (size_t i = 0; i < states_.size(); ++i)
      in[states_[i].input] = out[states_[i].output] = call.state->buffers[i]->buffer;
    status = executable_.launch(stream, in, out, call.shapes, call.values);
    if (status.ok()) status = mark(tools::kRunLaunched);
    for (const Copy& copy : to)
      if (status.ok() && copy.bytes) status = stream.copyToHost(copy.memory, outputBuffers_[copy.index], copy.bytes);
    if (status.ok()) status = mark(tools::kRunDownloaded);
    return status;
  };
  return lane_->enqueue(work, std::move(kept));
}

py::tuple Program::run(const std::vector<py::array>& inputs, StateMemory* state) {
  const Call call = prepare(inputs, state);
  auto request = std::make_shared<Request>(lane_, enqueue(call, nullptr), what());
  for (size_t i = 0; i < states_.size(); ++i) state->shapes[i] = call.outputInfos[states_[i].output].type.shape;
  return py::make_tuple(std::move(request), call.outputs);
}

std::shared_ptr<Request> Program::launch(const std::vector<std::shared_ptr<DeviceBuffer>>& inputs,
                                         const std::vector<std::shared_ptr<DeviceBuffer>>& outputs,
                                         const std::vector<Shape>& inputShapes, const InputValues& values) {
  std::vector<Buffer> from, to;
  for (const auto& input : inputs) from.push_back(input->buffer);
  for (const auto& output : outputs) to.push_back(output->buffer);
  Event done =
      lane_->enqueue([&](Stream& stream) { return executable_.launch(stream, from, to, inputShapes, values); }, {});
  return std::make_shared<Request>(lane_, done, what());
}

std::string Program::profile(const std::vector<py::array>& inputs, const StateMemory* state, int iterations, int warmup,
                             int top) {
  const Call call = prepare(inputs, state);
  auto runOnce = [&](const Event* marks) {
    checkSignals();  // A short wait does not.
    return waitFor(enqueue(call, marks), {}, what());
  };
  tools::RunTimes times = take(tools::timeRuns(device_->device, warmup, iterations, runOnce));
  tools::Json json = tools::Json::object();
  json.set("program", recipe_.name()).set("target", targetName(recipe_.target())).set("load_ms", loadMs_);
  tools::addTimes(json, times, recipe_.target());
  tools::Json& summary = json["trace"];
  if (Status started = trace::start(); started.ok()) {
    struct Cancel {
      ~Cancel() {
        if (armed) trace::cancel();
      }
      bool armed = true;
    } cancel;
    check(runOnce(nullptr));
    trace::Recording recording = take(trace::stop());
    cancel.armed = false;
    summary = summaryOf(std::move(recording), top);
  } else if (started.code() != StatusCode::kFailedPrecondition) {
    check(started);
  }
  return json.dump(-1);
}

void bindProgram(py::module_& module) {
  py::class_<StateMemory, std::shared_ptr<StateMemory>>(module, "StateMemory")
      .def(py::init([](std::vector<std::shared_ptr<DeviceBuffer>> buffers, std::vector<Shape> shapes) {
        if (buffers.size() != shapes.size()) throw py::value_error("the memory of a state has a shape");
        return std::make_shared<StateMemory>(StateMemory{std::move(buffers), std::move(shapes)});
      }))
      .def("shapes",
           [](const StateMemory& self) {
             py::list shapes;
             for (const Shape& shape : self.shapes) shapes.append(py::tuple(py::cast(shape)));
             return shapes;
           })
      .def("set_shapes", [](StateMemory& self, std::vector<Shape> shapes) {
        if (shapes.size() != self.shapes.size()) throw py::value_error("each state has a shape");
        self.shapes = std::move(shapes);
      });

  py::class_<Program, std::shared_ptr<Program>>(module, "Program")
      .def(py::init<std::shared_ptr<OpenDevice>, const Recipe&, std::vector<py::dtype>, std::vector<py::dtype>>())
      .def("ready", &Program::ready)
      .def("run", &Program::run)
      .def("outputs", [](const Program& program, const std::vector<Shape>& inputs,
                         const InputValues& values) { return describe(program.outputsFor(inputs, values)); })
      .def("launch", &Program::launch)
      .def("profile", &Program::profile)
      .def("load_ms", &Program::loadMs);
}

}  // namespace hpu::python
