package server

import (
	"runtime/debug"
	"strings"
	"sync"
)

// Build describes the build of this program.
type Build struct {
	Version  string `json:"version"` // of the module, "devel" for a build from a checkout
	Go       string `json:"go"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified,omitempty"`
}

// Version returns the version of the module, which is the field Version of [ReadBuild].
func Version() string { return ReadBuild().Version }

// ReadBuild returns the build information that the Go toolchain has recorded in this program.
var ReadBuild = sync.OnceValue(func() Build {
	b := Build{Version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	if v := info.Main.Version; v != "" {
		b.Version = strings.Trim(v, "()")
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
})
