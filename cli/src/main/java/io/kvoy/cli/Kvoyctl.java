// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import java.io.BufferedInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintWriter;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/**
 * The command line. Exit status: {@value #ANSWERED}, {@value #PROBLEM} or {@value #USAGE}.
 *
 * <p>Each command is a class; this one puts them together.
 */
@Command(
    name = "kvoyctl",
    mixinStandardHelpOptions = true,
    versionProvider = Kvoyctl.Version.class,
    synopsisSubcommandLabel = "COMMAND",
    description = "Shows what Kvoy computes: token ids, block hashes, cache views, Envoy configs.",
    footer = {
      "",
      "Exit status: 0 all input was answered, 1 something was not, 2 wrong usage.",
      "Commands that read JSON lines answer each line with one line, in order."
    })
public final class Kvoyctl {

  /** Everything was done. */
  static final int ANSWERED = 0;

  /** Some line or file could not be used; standard error or the line's answer says why. */
  static final int PROBLEM = 1;

  /** The options make no sense. */
  static final int USAGE = 2;

  private Kvoyctl() {}

  /** Runs one command on the process's own streams. */
  public static void main(String[] args) {
    // The tokenizer library logs through SLF4J, which would complain that nobody listens.
    System.setProperty("slf4j.internal.verbosity", "ERROR");
    System.exit(
        execute(
            new BufferedInputStream(new FileInputStream(FileDescriptor.in), 1 << 16),
            new FileOutputStream(FileDescriptor.out),
            new FileOutputStream(FileDescriptor.err),
            args));
  }

  /** Runs one command on the given streams, which stay open, and returns the exit status. */
  static int execute(InputStream in, OutputStream out, OutputStream err, String... args) {
    Streams streams = new Streams(in, out, err);
    return new CommandLine(new Kvoyctl())
        .addSubcommand(new TokenizeCommand(streams))
        .addSubcommand(new HashCommand(streams))
        .addSubcommand(new KvReplayCommand(streams))
        .addSubcommand(
            new CommandLine(new EnvoyCommand()).addSubcommand(new EnvoyBootstrapCommand(streams)))
        .setOut(streams.outText())
        .setErr(streams.errText())
        .setParameterExceptionHandler((wrong, _) -> wrongUsage(wrong))
        .execute(args);
  }

  /**
   * Says what is wrong and what was perhaps meant; the whole help would push that off the screen.
   */
  private static int wrongUsage(ParameterException wrong) {
    CommandLine command = wrong.getCommandLine();
    PrintWriter err = command.getErr();
    err.println("kvoyctl: " + wrong.getMessage());
    if (wrong instanceof UnmatchedArgumentException) {
      UnmatchedArgumentException.printSuggestions(wrong, err);
    } else if (!command.getUnmatchedArguments().isEmpty()) {
      // A misspelt option that is required is reported as a missing one.
      ParameterException unknown =
          new UnmatchedArgumentException(command, command.getUnmatchedArguments());
      err.println(unknown.getMessage());
      UnmatchedArgumentException.printSuggestions(unknown, err);
    }
    err.println("Try '" + command.getCommandSpec().qualifiedName() + " --help'.");
    return USAGE;
  }

  /** The version in the jar's manifest. */
  static final class Version implements CommandLine.IVersionProvider {
    @Override
    public String[] getVersion() {
      String version = Kvoyctl.class.getPackage().getImplementationVersion();
      return new String[] {"kvoyctl " + (version == null ? "(not packaged)" : version)};
    }
  }
}
