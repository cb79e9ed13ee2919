#include "tests/onnx_conformance/graph.h"

#include <cstring>
#include <fstream>

#include "onnx.pb.h"
#include "ops/create.h"

namespace tapegrad::onnx_conformance {
namespace {

template <typename Message>
Message parse(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Message message;
  if (!message.ParseFromIstream(&file)) throw std::runtime_error("cannot read " + path);
  return message;
}

/// Converts a typed field of a TensorProto bit by bit to elements of the dtype.
template <typename Stored, typename Field>
Tensor from_field(const Field& field, const Shape& shape) {
  std::vector<Stored> values(field.begin(), field.end());
  return Tensor::from<Stored>(values, shape);
}

/// Converts 16-bit values that are stored in 32 bits each.
template <typename T, typename Field>
Tensor from_bits(const Field& field, const Shape& shape) {
  std::vector<T> values;
  for (const auto bits : field) {
    const auto half = uint16_t(bits);
    T value;
    std::memcpy(&value, &half, sizeof(value));
    values.push_back(value);
  }
  return Tensor::from<T>(values, shape);
}

Variable to_variable(const onnx::TensorProto& proto) {
  const DType dtype = dtype_of(proto.data_type());
  Shape shape;
  for (const int64_t size : proto.dims()) shape.push_back(size);
  if (proto.has_raw_data()) {
    Tensor x = Tensor::empty(shape, dtype);
    const std::string& raw = proto.raw_data();
    if (int64_t(raw.size()) != x.numel() * size_of(dtype))
      throw std::runtime_error("raw_data of another size");
    if (!raw.empty()) std::memcpy(x.storage().data(), raw.data(), raw.size());
    return Variable(x);
  }
  switch (dtype) {
    case DType::kFloat32:
      return Variable(from_field<float>(proto.float_data(), shape));
    case DType::kFloat64:
      return Variable(from_field<double>(proto.double_data(), shape));
    case DType::kInt64:
      return Variable(from_field<int64_t>(proto.int64_data(), shape));
    case DType::kFloat16:
      return Variable(from_bits<float16>(proto.int32_data(), shape));
    case DType::kBFloat16:
      return Variable(from_bits<bfloat16>(proto.int32_data(), shape));
    default:
      return Variable(from_field<int32_t>(proto.int32_data(), shape).to(dtype));
  }
}

Attribute to_attribute(const onnx::AttributeProto& proto) {
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      return int64_t(proto.i());
    case onnx::AttributeProto::FLOAT:
      return double(proto.f());
    case onnx::AttributeProto::STRING:
      return proto.s();
    case onnx::AttributeProto::INTS:
      return Ints(proto.ints().begin(), proto.ints().end());
    case onnx::AttributeProto::FLOATS:
      return Reals(proto.floats().begin(), proto.floats().end());
    case onnx::AttributeProto::TENSOR:
      return to_variable(proto.t());
    case onnx::AttributeProto::GRAPH:
      throw Unsupported("graphs inside graphs");
    default:
      throw Unsupported("strings");
  }
}

std::vector<std::string> names(const auto& fields) {
  std::vector<std::string> list;
  for (const auto& field : fields) {
    if constexpr (requires { field.type(); }) {
      if (!field.type().has_tensor_type()) throw Unsupported("sequences and optional values");
      list.push_back(field.name());
    } else {
      list.push_back(field);
    }
  }
  return list;
}

}  // namespace

DType dtype_of(int64_t onnx_type) {
  switch (onnx_type) {
    case onnx::TensorProto::FLOAT:
      return f32;
    case onnx::TensorProto::DOUBLE:
      return f64;
    case onnx::TensorProto::FLOAT16:
      return f16;
    case onnx::TensorProto::BFLOAT16:
      return bf16;
    case onnx::TensorProto::UINT8:
      return u8;
    case onnx::TensorProto::INT8:
      return i8;
    case onnx::TensorProto::INT16:
      return i16;
    case onnx::TensorProto::INT32:
      return i32;
    case onnx::TensorProto::INT64:
      return i64;
    case onnx::TensorProto::BOOL:
      return boolean;
    case onnx::TensorProto::STRING:
      throw Unsupported("strings");
    default:
      throw Unsupported("no dtype " +
                        onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(onnx_type)));
  }
}

Variable read_tensor(const std::string& path, int64_t type) {
  auto proto = parse<onnx::TensorProto>(path);
  if (type == onnx::TensorProto::BFLOAT16) proto.set_data_type(onnx::TensorProto::BFLOAT16);
  return to_variable(proto);
}

Graph read_graph(const std::string& path) {
  const auto model = parse<onnx::ModelProto>(path);
  const onnx::GraphProto& from = model.graph();
  Graph graph;
  int64_t opset = 0;
  for (const auto& import : model.opset_import())
    if (import.domain().empty()) opset = import.version();
  graph.inputs = names(from.input());
  graph.outputs = names(from.output());
  for (const auto& input : from.input())
    graph.input_types.push_back(input.type().tensor_type().elem_type());
  for (const auto& output : from.output())
    graph.output_types.push_back(output.type().tensor_type().elem_type());
  for (const auto& constant : from.initializer())
    graph.constants[constant.name()] = to_variable(constant);
  for (const onnx::NodeProto& node : from.node()) {
    Graph::Step step;
    step.node.op = node.op_type();
    step.node.opset = opset;
    for (const auto& attribute : node.attribute())
      step.node.attributes[attribute.name()] = to_attribute(attribute);
    step.inputs = names(node.input());
    step.outputs = names(node.output());
    step.node.outputs = step.outputs.size();
    graph.steps.push_back(std::move(step));
  }
  return graph;
}

Values run(const Graph& graph, const Values& inputs, const Operators& table) {
  std::map<std::string, Variable> known = graph.constants;
  for (size_t i = 0; i < inputs.size(); ++i) known[graph.inputs.at(i)] = inputs[i];
  for (const Graph::Step& step : graph.steps) {
    const auto found = table.find(step.node.op);
    if (found == table.end()) throw Unsupported("no operator " + step.node.op);
    Node node = step.node;
    for (const std::string& name : step.inputs)
      node.inputs.push_back(name.empty() ? Variable() : known.at(name));
    const Values results = found->second(node);
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.outputs[k].empty()) continue;
      if (k >= results.size() || !results[k].defined())
        throw Unsupported(step.node.op + " without output " + std::to_string(k));
      known[step.outputs[k]] = results[k];
    }
  }
  Values outputs;
  for (const std::string& name : graph.outputs) outputs.push_back(known.at(name));
  return outputs;
}

}  // namespace tapegrad::onnx_conformance
