// SPDX-License-Identifier: Apache-2.0
package io.kvoy;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.methods;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaMethod;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import com.tngtech.archunit.library.GeneralCodingRules;

/**
 * The walls of the house. Think before you touch one: a failing rule mostly means that a class
 * stands in the wrong room, not that the wall is wrong. Changing a wall needs an ADR.
 */
@AnalyzeClasses(packages = "io.kvoy", importOptions = ImportOption.DoNotIncludeTests.class)
final class ArchitectureTest {
  private static final String[] ROW_1 = {
    "io.kvoy.tokenizer..", "io.kvoy.scoring..", "io.kvoy.policy.."
  };

  @ArchTest
  static final ArchRule languageAtTheBottom =
      noClasses()
          .that()
          .resideInAPackage("io.kvoy.inference..")
          .should()
          .dependOnClassesThat(ours("io.kvoy.inference"))
          .because("the client's language is what all rooms speak: it may know none of them");

  @ArchTest
  static final ArchRule tokenizerSeesTheLanguageOnly =
      noClasses()
          .that()
          .resideInAPackage("io.kvoy.tokenizer..")
          .should()
          .dependOnClassesThat(ours("io.kvoy.inference", "io.kvoy.tokenizer"))
          .because("tokenizing must be usable and testable without a fleet or a policy");

  @ArchTest
  static final ArchRule scoringSeesTheLanguageOnly =
      noClasses()
          .that()
          .resideInAPackage("io.kvoy.scoring..")
          .should()
          .dependOnClassesThat(ours("io.kvoy.inference", "io.kvoy.scoring"))
          .because("scoring works on numbers: token ids in, a pick out");

  @ArchTest
  static final ArchRule policySeesTheLanguageOnly =
      noClasses()
          .that()
          .resideInAPackage("io.kvoy.policy..")
          .should()
          .dependOnClassesThat(ours("io.kvoy.inference", "io.kvoy.policy"))
          .because("a policy must hold whatever tokenizer and scoring do");

  @ArchTest
  static final ArchRule envoyConfigSeesScoring =
      noClasses()
          .that()
          .resideInAPackage("io.kvoy.envoy..")
          .should()
          .dependOnClassesThat(ours("io.kvoy.inference", "io.kvoy.scoring", "io.kvoy.envoy"))
          .because("Envoy's configuration is a view of the fleet and of nothing else");

  @ArchTest
  static final ArchRule kubernetesSeesScoringAndPolicy =
      noClasses()
          .that()
          .resideInAPackage("io.kvoy.k8s..")
          .should()
          .dependOnClassesThat(
              ours("io.kvoy.inference", "io.kvoy.scoring", "io.kvoy.policy", "io.kvoy.k8s"))
          .because("Kubernetes is optional: it makes snapshots, it serves no request");

  @ArchTest
  static final ArchRule cliOpensNoDoor =
      noClasses()
          .that()
          .resideInAPackage("io.kvoy.cli..")
          .should()
          .dependOnClassesThat()
          .resideInAnyPackage("io.kvoy.server..", "io.kvoy.e2e..", "io.kvoy.bench..", "io.grpc..")
          .because("kvoyctl runs the same engine offline, without the server's doors");

  @ArchTest
  static final ArchRule serverKnowsNoTests =
      noClasses()
          .that()
          .resideInAPackage("io.kvoy.server..")
          .should()
          .dependOnClassesThat()
          .resideInAnyPackage("io.kvoy.e2e..", "io.kvoy.bench..", "io.kvoy.cli..")
          .because("what ships must not lean on what proves it");

  @ArchTest
  static final ArchRule lowerRowsShowNoForeignTypes =
      methods()
          .that()
          .areDeclaredInClassesThat()
          .resideInAnyPackage("io.kvoy.inference..", ROW_1[0], ROW_1[1], ROW_1[2])
          .and()
          .arePublic()
          .and()
          .areDeclaredInClassesThat()
          .arePublic()
          .should(
              showNoTypeOf(
                  "io.grpc.",
                  "com.google.protobuf.",
                  "io.envoyproxy.",
                  "io.fabric8.",
                  "ai.djl.",
                  "org.msgpack.",
                  "org.zeromq."))
          .because(
              "a library in a public signature is a library that cannot be exchanged;"
                  + " gRPC, Envoy, Kubernetes and DJL stay behind the rooms that need them");

  @ArchTest
  static final ArchRule noCyclesBetweenPackages =
      slices()
          .matching("io.kvoy.(*).(**)")
          .should()
          .beFreeOfCycles()
          .because("a cycle is one package that was cut in the wrong place");

  @ArchTest
  static final ArchRule packagesAreNounsOfTheDomain =
      noClasses()
          .should()
          .resideInAnyPackage(
              "..util..",
              "..utils..",
              "..helper..",
              "..manager..",
              "..impl..",
              "..misc..",
              "..common..")
          .because("such a name says nothing about what lives there");

  @ArchTest
  static final ArchRule noSleepInProductionLoops =
      noClasses()
          .that()
          .resideInAnyPackage(
              "io.kvoy.inference..", "io.kvoy.tokenizer..", "io.kvoy.scoring..", "io.kvoy.server..")
          .should()
          .callMethod(Thread.class, "sleep", long.class)
          .because("waits are scheduled, so that they can be tested and shut down");

  @ArchTest
  static final ArchRule onlyProgramsPrint =
      noClasses()
          .that()
          .resideInAnyPackage(
              "io.kvoy.inference..",
              "io.kvoy.tokenizer..",
              "io.kvoy.scoring..",
              "io.kvoy.policy..",
              "io.kvoy.envoy..")
          .should(GeneralCodingRules.ACCESS_STANDARD_STREAMS)
          .because("rooms log or return values");

  private static DescribedPredicate<JavaClass> ours(String... allowed) {
    return new DescribedPredicate<>("are of Kvoy but not of " + String.join(", ", allowed)) {
      @Override
      public boolean test(JavaClass target) {
        String name = target.getPackageName();
        if (!name.startsWith("io.kvoy")) {
          return false;
        }
        for (String prefix : allowed) {
          if (name.equals(prefix) || name.startsWith(prefix + ".")) {
            return false;
          }
        }
        return true;
      }
    };
  }

  private static ArchCondition<JavaMethod> showNoTypeOf(String... prefixes) {
    return new ArchCondition<>("show no foreign type") {
      @Override
      public void check(JavaMethod method, ConditionEvents events) {
        method.getAllInvolvedRawTypes().stream()
            .filter(type -> startsWithAny(type.getName(), prefixes))
            .forEach(
                type ->
                    events.add(
                        SimpleConditionEvent.violated(
                            method, method.getFullName() + " shows " + type.getName())));
      }
    };
  }

  private static boolean startsWithAny(String name, String[] prefixes) {
    for (String prefix : prefixes) {
      if (name.startsWith(prefix)) {
        return true;
      }
    }
    return false;
  }
}
