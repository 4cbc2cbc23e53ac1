package testpostgres

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/mainstemdev/mainstem/internal/testport"
)

// programs are the paths of the two programs that a server needs.
type programs struct{ initdb, postgres string }

// installed are the patterns of folders that hold both programs, where packages of
// operating systems put them.
var installed = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// findPrograms looks for the programs once in a process.
var findPrograms = sync.OnceValues(func() (programs, error) {
	initdb, err1 := exec.LookPath("initdb")
	postgres, err2 := exec.LookPath("postgres")
	if err1 == nil && err2 == nil {
		return programs{initdb, postgres}, nil
	}
	if p, ok := newestInstalled(installed); ok {
		return p, nil
	}
	p, err := download()
	if err != nil {
		return programs{}, fmt.Errorf("no PostgreSQL to test with: not on the PATH (%w), not in %q, and it could not be downloaded: %w",
			errors.Join(err1, err2), installed, err)
	}
	return p, nil
})

// newestInstalled returns the programs of the highest version among the folders that
// match the patterns.
func newestInstalled(patterns []string) (programs, bool) {
	var dirs []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err == nil {
			dirs = append(dirs, found...)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(majorVersion(b), majorVersion(a)) })
	for _, dir := range dirs {
		if p, ok := programsIn(dir); ok {
			return p, true
		}
	}
	return programs{}, false
}

// majorVersion returns the last number in a path, as in /usr/lib/postgresql/16/bin.
func majorVersion(path string) int {
	end := len(path)
	for end > 0 && (path[end-1] < '0' || path[end-1] > '9') {
		end--
	}
	begin := end
	for begin > 0 && path[begin-1] >= '0' && path[begin-1] <= '9' {
		begin--
	}
	n, err := strconv.Atoi(path[begin:end])
	if err != nil {
		return 0
	}
	return n
}

func programsIn(dir string) (programs, bool) {
	p := programs{filepath.Join(dir, "initdb"), filepath.Join(dir, "postgres")}
	for _, name := range []string{p.initdb, p.postgres} {
		if info, err := os.Stat(name); err != nil || info.Mode()&0o111 == 0 {
			return programs{}, false
		}
	}
	return p, true
}

// download fetches and unpacks the programs with embedded-postgres, whose own way to
// start a server cannot change the user. It is asked to start a server where none can
// start, on a data folder that cannot be made, so it stops after unpacking.
func download() (programs, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return programs{}, err
	}
	// A user without rights must get there: a home folder is often closed to others.
	if os.Getuid() == 0 {
		cache = "/var/cache"
	}
	dir := filepath.Join(cache, "mainstem-testpostgres")
	if p, ok := programsIn(filepath.Join(dir, "unpacked", "bin")); ok {
		return p, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return programs{}, err
	}
	scratch, err := os.MkdirTemp(dir, "start-")
	if err != nil {
		return programs{}, err
	}
	defer os.RemoveAll(scratch)
	blocked := filepath.Join(scratch, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		return programs{}, err
	}
	port, err := testport.Free()
	if err != nil {
		return programs{}, err
	}
	unpacked := filepath.Join(dir, "unpacked")
	_, serr := fetch(embedded.DefaultConfig().Version(embedded.V16).Port(uint32(port)).CachePath(dir).BinariesPath(unpacked).
		RuntimePath(filepath.Join(scratch, "run")).DataPath(filepath.Join(blocked, "data")).
		StartTimeout(time.Minute).Logger(io.Discard))
	p, ok := programsIn(filepath.Join(unpacked, "bin"))
	if !ok {
		return programs{}, cmp.Or(serr, fmt.Errorf("nothing was unpacked into %s", unpacked))
	}
	return p, nil
}

// fetch starts a server that is not wanted, for what has to be there before it starts.
func fetch(c embedded.Config) (started bool, err error) {
	server := embedded.NewDatabase(c)
	if err := server.Start(); err != nil {
		return false, err
	}
	return true, server.Stop()
}
