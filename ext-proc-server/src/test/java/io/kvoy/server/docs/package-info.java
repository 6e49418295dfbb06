// SPDX-License-Identifier: Apache-2.0

/** Compares pages under {@code docs/} with the declarations that they are written from. */
@NullMarked
package io.kvoy.server.docs;

import org.jspecify.annotations.NullMarked;
