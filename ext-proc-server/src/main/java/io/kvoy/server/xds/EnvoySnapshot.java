// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.xds;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Message;
import io.envoyproxy.controlplane.cache.Resources;
import io.envoyproxy.controlplane.cache.Resources.ResourceType;
import io.envoyproxy.controlplane.cache.Snapshot;
import io.envoyproxy.controlplane.cache.VersionedResource;
import io.kvoy.envoy.XdsResources;
import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.EnumMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One whole configuration with its versions.
 *
 * <p>A version is a hash of the content: what is equal has one version in every replica and before
 * and after a restart, so that a proxy which changes from one Kvoy to another is told nothing that
 * it knows. Each type has its own, so that a change of endpoints moves endpoints alone. (The
 * library's own snapshot hashes by identity, anew in each process.)
 *
 * <p>A changed cluster counts as a change of its endpoints: Envoy 1.40 keeps the old cluster until
 * the endpoints of the new one have come, and in the delta protocol does not ask for those that it
 * already has. They must be sent again, or the change never takes effect.
 */
final class EnvoySnapshot extends Snapshot {
  /** 64 bits: enough to tell a few thousand configurations of one fleet apart. */
  private static final int VERSION_BYTES = 8;

  private record Part(
      String version,
      Map<String, Message> resources,
      Map<String, VersionedResource<? extends Message>> versioned) {}

  private final Map<ResourceType, Part> parts = new EnumMap<>(ResourceType.class);
  private final Part nothing = part(List.of(), Map.of());
  private final String version;

  EnvoySnapshot(XdsResources resources) {
    Part clusters = part(resources.clusters(), Map.of());
    parts.put(ResourceType.CLUSTER, clusters);
    parts.put(ResourceType.ENDPOINT, part(resources.endpoints(), clusters.resources()));
    parts.put(ResourceType.LISTENER, part(resources.listeners(), Map.of()));
    parts.put(ResourceType.ROUTE, part(resources.routes(), Map.of()));
    MessageDigest all = sha256();
    parts
        .values()
        .forEach(
            part ->
                all.update(part.version().getBytes(java.nio.charset.StandardCharsets.US_ASCII)));
    version = hex(all);
  }

  /** The version of the whole. */
  String version() {
    return version;
  }

  @Override
  public String version(ResourceType type, List<String> names) {
    return of(type).version();
  }

  @Override
  public Map<String, ? extends Message> resources(ResourceType type) {
    return of(type).resources();
  }

  @Override
  public Map<String, VersionedResource<? extends Message>> versionedResources(ResourceType type) {
    return of(type).versioned();
  }

  private Part of(ResourceType type) {
    return parts.getOrDefault(type, nothing);
  }

  /**
   * One type.
   *
   * @param owners what a resource of the same name belongs to, and changes with
   */
  private static Part part(List<? extends Message> messages, Map<String, Message> owners) {
    Map<String, Message> resources = new LinkedHashMap<>();
    Map<String, VersionedResource<? extends Message>> versioned = new LinkedHashMap<>();
    MessageDigest all = sha256();
    for (Message message : messages) {
      String name = Resources.getResourceName(message);
      MessageDigest own = sha256();
      for (MessageDigest digest : List.of(own, all)) {
        digest.update(bytes(message));
        Message owner = owners.get(name);
        if (owner != null) {
          digest.update(bytes(owner));
        }
      }
      resources.put(name, message);
      versioned.put(name, VersionedResource.create(message, hex(own)));
    }
    return new Part(hex(all), Map.copyOf(resources), Map.copyOf(versioned));
  }

  private static byte[] bytes(Message message) {
    byte[] bytes = new byte[message.getSerializedSize()];
    CodedOutputStream out = CodedOutputStream.newInstance(bytes);
    out.useDeterministicSerialization();
    try {
      message.writeTo(out);
    } catch (IOException e) {
      throw new IllegalStateException("an array of the message's own size is too small", e);
    }
    return bytes;
  }

  private static String hex(MessageDigest digest) {
    return HexFormat.of().formatHex(digest.digest(), 0, VERSION_BYTES);
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every JDK has SHA-256", e);
    }
  }
}
