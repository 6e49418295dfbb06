// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.google.protobuf.DescriptorProtos.DescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import io.envoyproxy.envoy.config.cluster.v3.ClusterProto;
import io.envoyproxy.envoy.config.cluster.v3.LoadBalancingPolicy;
import io.envoyproxy.envoy.type.metadata.v3.MetadataKey;
import io.envoyproxy.envoy.type.metadata.v3.MetadataProto;

/**
 * The configuration message of Envoy's {@code override_host} load balancing policy.
 *
 * <p>java-control-plane 1.0.49 has no class for it, so the message is described here, by name and
 * field number as in Envoy 1.40 {@code
 * api/envoy/extensions/load_balancing_policies/override_host/v3/override_host.proto}. A described
 * message, unlike one wrapped in a TypedStruct, reads in JSON exactly as Envoy's documentation
 * writes it.
 */
final class OverrideHostPolicy {
  private static final String PACKAGE = "envoy.extensions.load_balancing_policies.override_host.v3";
  private static final String METADATA_KEY = "." + MetadataKey.getDescriptor().getFullName();
  private static final String POLICY = "." + LoadBalancingPolicy.getDescriptor().getFullName();

  /** Descriptor of {@code OverrideHost}, to print the message. */
  static final Descriptor DESCRIPTOR = describe();

  private OverrideHostPolicy() {}

  /**
   * Reads the endpoint from metadata first, then from the header; tells in metadata which endpoint
   * served.
   */
  static DynamicMessage forEndpointPicker(LoadBalancingPolicy fallback) {
    Descriptor source = DESCRIPTOR.findNestedTypeByName("OverrideHostSource");
    DynamicMessage fromMetadata =
        DynamicMessage.newBuilder(source)
            .setField(
                source.findFieldByName("metadata"), lbKey(ControlHeaders.DESTINATION_ENDPOINT))
            .build();
    DynamicMessage fromHeader =
        DynamicMessage.newBuilder(source)
            .setField(source.findFieldByName("header"), ControlHeaders.DESTINATION_ENDPOINT)
            .build();
    var sources = DESCRIPTOR.findFieldByName("override_host_sources");
    return DynamicMessage.newBuilder(DESCRIPTOR)
        .addRepeatedField(sources, fromMetadata)
        .addRepeatedField(sources, fromHeader)
        .setField(
            DESCRIPTOR.findFieldByName("selected_host_key"),
            lbKey(ControlHeaders.DESTINATION_ENDPOINT_SERVED))
        .setField(DESCRIPTOR.findFieldByName("fallback_policy"), fallback)
        .build();
  }

  private static MetadataKey lbKey(String name) {
    return MetadataKey.newBuilder()
        .setKey(ControlHeaders.METADATA_NAMESPACE)
        .addPath(MetadataKey.PathSegment.newBuilder().setKey(name))
        .build();
  }

  private static Descriptor describe() {
    DescriptorProto source =
        DescriptorProto.newBuilder()
            .setName("OverrideHostSource")
            .addField(
                field("header", 1, FieldDescriptorProto.Label.LABEL_OPTIONAL)
                    .setType(FieldDescriptorProto.Type.TYPE_STRING))
            .addField(
                message("metadata", 2, FieldDescriptorProto.Label.LABEL_OPTIONAL, METADATA_KEY))
            .build();
    DescriptorProto policy =
        DescriptorProto.newBuilder()
            .setName("OverrideHost")
            .addNestedType(source)
            .addField(
                message(
                    "override_host_sources",
                    1,
                    FieldDescriptorProto.Label.LABEL_REPEATED,
                    "." + PACKAGE + ".OverrideHost.OverrideHostSource"))
            .addField(
                message(
                    "selected_host_key",
                    2,
                    FieldDescriptorProto.Label.LABEL_OPTIONAL,
                    METADATA_KEY))
            .addField(
                message("fallback_policy", 3, FieldDescriptorProto.Label.LABEL_OPTIONAL, POLICY))
            .build();
    FileDescriptor metadata = MetadataProto.getDescriptor();
    FileDescriptor cluster = ClusterProto.getDescriptor();
    FileDescriptorProto file =
        FileDescriptorProto.newBuilder()
            .setName(
                "envoy/extensions/load_balancing_policies/override_host/v3/override_host.proto")
            .setPackage(PACKAGE)
            .setSyntax("proto3")
            .addDependency(metadata.getName())
            .addDependency(cluster.getName())
            .addMessageType(policy)
            .build();
    try {
      return FileDescriptor.buildFrom(file, new FileDescriptor[] {metadata, cluster})
          .findMessageTypeByName("OverrideHost");
    } catch (DescriptorValidationException wrong) {
      throw new IllegalStateException(
          "the description of override_host does not hold together", wrong);
    }
  }

  private static FieldDescriptorProto.Builder message(
      String name, int number, FieldDescriptorProto.Label label, String type) {
    return field(name, number, label)
        .setType(FieldDescriptorProto.Type.TYPE_MESSAGE)
        .setTypeName(type);
  }

  private static FieldDescriptorProto.Builder field(
      String name, int number, FieldDescriptorProto.Label label) {
    return FieldDescriptorProto.newBuilder().setName(name).setNumber(number).setLabel(label);
  }
}
