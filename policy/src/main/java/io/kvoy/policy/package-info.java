// SPDX-License-Identifier: Apache-2.0

/**
 * May this request go, and where. No policy is enforced yet: every authenticated or anonymous
 * request may go to every ready worker of its pool.
 */
@NullMarked
package io.kvoy.policy;

import org.jspecify.annotations.NullMarked;
