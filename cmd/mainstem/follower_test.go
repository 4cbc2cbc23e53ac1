package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

type followersKey struct{}

// follower is a command that runs until it is interrupted.
type follower struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	match  []string        // the line that was waited for last, and what its groups hold
	said   strings.Builder // what was read of stdout
	stderr strings.Builder
	killer *time.Timer // ends one that hangs; it runs while something is waited for
}

// startFollower runs a command and returns when a line of its output matches.
func startFollower(cmd *exec.Cmd, line *regexp.Regexp) (*follower, error) {
	f := &follower{cmd: cmd}
	cmd.Stderr = &f.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f.stdout = bufio.NewReader(out)
	f.killer = time.AfterFunc(testkit.Patience, func() { _ = cmd.Process.Kill() })
	if err := f.await(line); err != nil {
		return nil, fmt.Errorf("%w, %w", err, cmd.Wait())
	}
	return f, nil
}

// await reads until a line of the output matches.
func (f *follower) await(line *regexp.Regexp) error {
	f.killer.Reset(testkit.Patience)
	defer f.killer.Stop()
	for {
		s, err := f.stdout.ReadString('\n')
		f.said.WriteString(s)
		if f.match = line.FindStringSubmatch(strings.TrimSuffix(s, "\n")); f.match != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("no line matches %s (%w): %q %s", line, err, f.said.String(), f.stderr.String())
		}
	}
}

// end interrupts the follower and returns how it ended.
func (f *follower) end() error {
	if f.cmd.ProcessState != nil {
		return nil
	}
	f.killer.Reset(testkit.Patience)
	defer f.killer.Stop()
	_ = f.cmd.Process.Signal(os.Interrupt) // it may have ended
	_, _ = io.Copy(&f.said, f.stdout)
	return f.cmd.Wait()
}

// cmdFollow runs a command in the background and waits until a line of its
// output matches: follow NAME PATTERN COMMAND... What a named group of the pattern
// holds is in the variable of that name from then on.
func cmdFollow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: follow NAME PATTERN COMMAND...")
	}
	line, err := regexp.Compile(args[1])
	ts.Check(err)
	path, err := exec.LookPath(args[2])
	ts.Check(err)
	cmd := exec.Command(path, args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = scriptEnv(ts)
	f, err := startFollower(cmd, line)
	ts.Check(err)
	for i, name := range line.SubexpNames() {
		if name != "" {
			ts.Setenv(name, f.match[i])
		}
	}
	ts.Value(followersKey{}).(map[string]*follower)[args[0]] = f
	ts.Defer(func() { _ = f.end() })
}

// cmdHeard waits until a further line of what follow has started matches: heard NAME PATTERN.
func cmdHeard(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: heard NAME PATTERN")
	}
	f := ts.Value(followersKey{}).(map[string]*follower)[args[0]]
	if f == nil {
		ts.Fatalf("nothing called %s was started by follow", args[0])
	}
	line, err := regexp.Compile(args[1])
	ts.Check(err)
	ts.Check(f.await(line))
}

// cmdInterrupt ends what was started by follow, demands success and shows all
// that it said: interrupt NAME.
func cmdInterrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: interrupt NAME")
	}
	f := ts.Value(followersKey{}).(map[string]*follower)[args[0]]
	if f == nil {
		ts.Fatalf("nothing called %s was started by follow", args[0])
	}
	err := f.end()
	fmt.Fprint(ts.Stdout(), f.said.String())
	fmt.Fprint(ts.Stderr(), f.stderr.String())
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
}
