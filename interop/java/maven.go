package java

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// The versions of Kafka that pom.xml has a profile for. Only Kafka41 has the tools,
// Connect and MirrorMaker.
const (
	Kafka36 = "3.6"
	Kafka41 = "4.1"
)

// Missing says which of the programs that the tests need are not on the PATH; empty
// means none.
func Missing() string {
	var missing []string
	for _, name := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, err.Error())
		}
	}
	return strings.Join(missing, "; ")
}

// folder is where pom.xml is.
var folder = sync.OnceValue(func() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Dir(here)
})

// building keeps two builds of one process apart. The lock of the folder does that to two processes.
var building sync.Mutex

// ClassPath returns the class path of a version, after building it with Maven if the
// sources have changed since the last time, or a library is gone.
func ClassPath(ctx context.Context, version string) (string, error) {
	building.Lock()
	defer building.Unlock()
	dir := filepath.Join(folder(), ".target")
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	target := filepath.Join(dir, "kafka-"+version)
	sum, err := sources()
	if err != nil {
		return "", err
	}
	stamp := filepath.Join(target, "stamp")
	if built, err := os.ReadFile(stamp); err == nil && string(built) == sum {
		if path, err := builtPath(target); err == nil {
			return path, nil
		}
	}
	if err := maven(ctx, version); err != nil {
		return "", err
	}
	path, err := builtPath(target)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(stamp, []byte(sum), 0o644)
}

// sources returns a checksum of pom.xml and of every Java source.
func sources() (string, error) {
	sum := sha256.New()
	add := func(path string) error {
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(path), len(text), text)
		return err
	}
	if err := add(filepath.Join(folder(), "pom.xml")); err != nil {
		return "", err
	}
	err := filepath.WalkDir(filepath.Join(folder(), "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return add(path)
	})
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

// maven compiles and writes the class path of the libraries.
func maven(ctx context.Context, version string) error {
	cmd := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "-P", "kafka-"+version, "compile", "dependency:build-classpath")
	cmd.Dir = folder()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, errors.Join(err, ctx.Err()), out.Bytes())
	}
	return nil
}

// builtPath returns what Maven left in a folder: our classes and then the libraries.
func builtPath(target string) (string, error) {
	libraries, err := os.ReadFile(filepath.Join(target, "classpath"))
	if err != nil {
		return "", err
	}
	path := append([]string{filepath.Join(target, "classes")}, filepath.SplitList(strings.TrimSpace(string(libraries)))...)
	for _, file := range path {
		if _, err := os.Stat(file); err != nil {
			return "", err
		}
	}
	return strings.Join(path, string(filepath.ListSeparator)), nil
}

// command returns a JVM that runs a class. It is small and starts fast, and what
// Kafka logs at a level goes to standard error.
func command(ctx context.Context, version, level, class string, args ...string) (*exec.Cmd, error) {
	path, err := ClassPath(ctx, version)
	if err != nil {
		return nil, err
	}
	flags := []string{"-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=" + level, "-cp", path, class}
	return exec.Command("java", append(flags, args...)...), nil
}
