// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.google.protobuf.Any;
import com.google.protobuf.Struct;
import com.google.protobuf.UInt32Value;
import com.google.protobuf.Value;
import io.envoyproxy.envoy.config.accesslog.v3.AccessLogFilter;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.config.core.v3.HeaderValueOption;
import io.envoyproxy.envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.LocalReplyConfig;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.ResponseMapper;

/**
 * {@link LocalReply} as Envoy's configuration: each in the shape of the API that was called, since
 * a client library reads a JSON error, not a line of text. Kvoy's refusals pass through here as
 * well and are left alone: their details begin with {@code kvoy_}.
 */
final class LocalReplies {
  private LocalReplies() {}

  static LocalReplyConfig config() {
    LocalReplyConfig.Builder config = LocalReplyConfig.newBuilder();
    for (LocalReply cause : LocalReply.values()) {
      config.addMappers(mapper(cause, true)).addMappers(mapper(cause, false));
    }
    return config.build();
  }

  private static ResponseMapper mapper(LocalReply cause, boolean anthropic) {
    String condition = "!response.code_details.startsWith('kvoy_') && (" + cause.when + ")";
    if (anthropic) {
      condition = "request.path.startsWith('/v1/messages') && " + condition;
    }
    ResponseMapper.Builder mapper = ResponseMapper.newBuilder().setFilter(cel(condition));
    if (cause.status() != 0) {
      mapper.setStatusCode(UInt32Value.of(cause.status()));
    }
    if (cause.retryAfterSeconds() > 0) {
      mapper.addHeadersToAdd(
          HeaderValueOption.newBuilder()
              .setHeader(
                  HeaderValue.newBuilder()
                      .setKey("retry-after")
                      .setValue(Integer.toString(cause.retryAfterSeconds())))
              .setAppendAction(HeaderValueOption.HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD));
    }
    Struct.Builder error = Struct.newBuilder().putFields("message", text(cause.message()));
    Struct.Builder body = Struct.newBuilder();
    if (anthropic) {
      error.putFields("type", text(cause.anthropicType()));
      body.putFields("type", text("error"));
    } else {
      error.putFields("type", text(cause.openAiType())).putFields("code", text("%RESPONSE_CODE%"));
    }
    body.putFields("error", Value.newBuilder().setStructValue(error).build());
    mapper.getBodyFormatOverrideBuilder().setJsonFormat(body);
    return mapper.build();
  }

  private static AccessLogFilter cel(String expression) {
    AccessLogFilter.Builder filter = AccessLogFilter.newBuilder();
    filter
        .getExtensionFilterBuilder()
        .setName("envoy.access_loggers.extension_filters.cel")
        .setTypedConfig(Any.pack(ExpressionFilter.newBuilder().setExpression(expression).build()));
    return filter.build();
  }

  private static Value text(String value) {
    return Value.newBuilder().setStringValue(value).build();
  }
}
