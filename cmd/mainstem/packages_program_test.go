package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPythonPackage builds both forms of the package of the Python client, installs one after the other,
// without network, and calls a server from a folder that has no other copy of the client.
func TestPythonPackage(t *testing.T) {
	python := interpreter(t, "python3", "venv", "ensurepip", "pip", "tomllib")
	dir := t.TempDir()
	env := append(os.Environ(), "PIP_NO_INDEX=1", "PIP_NO_CACHE_DIR=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_CONFIG_FILE="+os.DevNull,
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=")
	sources := clientPath(t, "python")
	build := `import sys; sys.path.insert(0, sys.argv[1]); import build_backend as b; print(b.build_sdist("."))`
	sdist := strings.TrimSpace(output(t, dir, env, python, "-c", build, sources))
	output(t, dir, env, python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", dir, sources)
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("pip has built %q, want one wheel (%v)", wheels, err)
	}
	home := filepath.Join(dir, "env")
	output(t, dir, env, python, "-m", "venv", home)
	installed := filepath.Join(home, "bin", "python")
	for _, form := range []string{filepath.Base(wheels[0]), sdist} {
		output(t, dir, env, installed, "-m", "pip", "install", "--force-reinstall", filepath.Join(dir, form))
		testInstalled(t, home, func(folder, url string) string {
			return output(t, folder, env, installed, "-c", `
import importlib.metadata, importlib.resources, sys
import mainstem
assert mainstem.__file__.startswith(sys.argv[2]), mainstem.__file__
assert importlib.resources.files(mainstem).joinpath("py.typed").is_file()
assert importlib.metadata.version("mainstem")
t = mainstem.Mainstem(sys.argv[1]).table("app/users")
t.put("42", "Ada")
print(t.get("42").value.decode())
`, url, home)
		})
	}
}

// TestTypeScriptPackage packs the TypeScript client, installs it in a project of its own, without network, and calls
// a server from there.
func TestTypeScriptPackage(t *testing.T) {
	node, npm := interpreter(t, "node"), interpreter(t, "npm")
	dir := t.TempDir()
	env := append(os.Environ(), "npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false",
		"npm_config_cache="+filepath.Join(dir, "cache"), "npm_config_userconfig="+filepath.Join(dir, "npmrc"))
	output(t, dir, env, npm, "pack", "--silent", "--pack-destination", dir, clientPath(t, "typescript"))
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("npm has packed %q, want one file (%v)", packed, err)
	}
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "package.json"), []byte(`{"type":"module"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	output(t, project, env, npm, "install", packed[0])
	if _, err := os.Stat(filepath.Join(project, "node_modules", "mainstem", "mainstem.d.ts")); err != nil {
		t.Errorf("the package has no types: %v", err)
	}
	testInstalled(t, project, func(folder, url string) string {
		return output(t, folder, env, node, "--input-type=module", "-e", `
import { Mainstem } from "mainstem";
const t = new Mainstem(process.argv[1]).table("app/users");
await t.put("42", "Ada");
console.log(new TextDecoder().decode((await t.get("42")).value));
`, url)
	})
}

// testInstalled runs a program that writes "Ada" to a server and prints what it reads of it.
func testInstalled(t *testing.T, folder string, program func(folder, url string) string) {
	t.Helper()
	s, err := startServer(t.TempDir(), os.Environ(), "--log", "memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.kill()
	if got := strings.TrimSpace(program(folder, s.url)); got != "Ada" {
		t.Errorf("the program prints %q, want %q", got, "Ada")
	}
}

// output runs a program in a folder and returns what it prints.
func output(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var complaints strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd, err, out, complaints.String())
	}
	return string(out)
}
