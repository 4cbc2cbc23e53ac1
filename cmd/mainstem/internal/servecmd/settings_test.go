package servecmd

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/lease"
	"github.com/mainstemdev/mainstem/topic"
	views "github.com/mainstemdev/mainstem/wire/http"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

var rewriteSettings = flag.Bool("rewrite", false, "write docs/settings.md anew")

// TestSettingsOfDocuments: docs/settings.md has every setting of the server as the server
// knows it.
func TestSettingsOfDocuments(t *testing.T) {
	const file = "../../../../docs/settings.md"
	want := settingsPage()
	if *rewriteSettings {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s does not show the settings as they are: go test ./cmd/mainstem/internal/servecmd -run SettingsOfDocuments -rewrite", file)
	}
}

// settingsPage is the text of docs/settings.md.
func settingsPage() []byte {
	var b bytes.Buffer
	b.WriteString(`# Settings of the server

Every setting of ` + "`mainstem serve`" + ` is a flag (` + "`--max-value`" + `), a key of the YAML file that ` + "`--config`" + ` names
(` + "`max-value:`" + `) and an environment variable (` + "`MAINSTEM_MAX_VALUE`" + `). Flags win over variables, variables over the
file; for this ` + "`token` and `token-file`" + ` are one setting. A name that nobody knows is an error. A size is a number of
bytes such as 4096 or 16MiB, a duration one such as 1m30s. A test writes this page from the program.

| setting | value | default | what it is |
|---|---|---|---|
`)
	c := (&cli.Main{Components: Components}).ServerConfig()
	for _, s := range c.Settings() {
		help, value := s.Usage, s.Default
		if value != "" {
			help = strings.TrimSuffix(help, " (default "+value+")")
		} else {
			value = s.Get()
		}
		cells := strings.NewReplacer("|", `\|`)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, cells.Replace(s.Type), cells.Replace(value), cells.Replace(help))
	}
	return b.Bytes()
}

func TestEverySettingReadsWhatItWrites(t *testing.T) {
	values := map[string]string{
		"log": "data", "listen": "127.0.0.1:9", "durability": "interval=50ms", "tls-cert": "c", "tls-key": "k", "token": "t",
		"kafka": "127.0.0.1:9", "kafka-advertise": "h:1", "kafka-sasl": "plain", "kafka-auto-create": "false", "kafka-partitions": "3",
		"kafka-auto-create-rate": "12", "kafka-auto-create-topics": "13",
		"kafka-max-request": "300000", "kafka-max-pending": "400000", "kafka-max-fetch": "500000", "kafka-max-connections": "11",
		"kafka-write-timeout": "7s", "kafka-idle-timeout": "8s", "kafka-offset-retention": "9h0m0s", "kafka-group-session": "12s", "kafka-group-heartbeat": "3s", "kafka-lease": "20s",
		"omnibus": "127.0.0.1:9", "alert-server-name": "AGG1", "alert-automations": "false",
		"omnibus-users": "u", "alert-syslog": "127.0.0.1:1514", "alert-syslog-ca": "ca", "alert-webhook": "127.0.0.1:9099", "alert-mapping": "m",
		"views": "false", "views-max-streams": "14", "views-write-timeout": "15s",
		"cluster": "a@127.0.0.1:9", "cluster-advertise": "h:2", "cluster-peers": "b=h:3", "cluster-certs": "certs", "cluster-secret-file": "s",
		"token-file": "f", "insecure": "true", "max-value": "1024", "max-batch-bytes": "2048", "max-batch-writes": "7",
		"cache": "8388608", "memtable": "4194304", "min-free": "1000", "batch-id-age": "1h0m0s", "sweep-every": "1s",
		"upkeep-every": "2s", "compaction-memory": "131072", "max-request": "100000", "max-pending": "200000", "max-answers": "300001", "memory-limit": "900000", "memory-budget": "800000", "max-streams": "8",
		"max-snapshots": "9", "snapshot-lease": "4s", "body-timeout": "5s", "stall-timeout": "6s", "stop-timeout": "3s", "log-format": "json", "log-level": "debug",
	}
	c := (&cli.Main{Components: Components}).ServerConfig()
	for _, s := range c.Settings() {
		v, ok := values[s.Name]
		if !ok {
			t.Errorf("this test knows no value for %s", s.Name)
			continue
		}
		if s.Get() == v {
			t.Errorf("%s is %q already: the test would prove nothing", s.Name, v)
		}
		if err := s.Set(v); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	for _, s := range c.Settings() {
		if got := s.Get(); got != values[s.Name] {
			t.Errorf("%s is %q, want %q: a setting changed another's field", s.Name, got, values[s.Name])
		}
		if s.Usage == "" || s.Type == "" || s.Env() != "MAINSTEM_"+strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")) {
			t.Errorf("%+v is not complete", s)
		}
	}
}

// TestDefaultsOfSettings: the text of a default is what the package that uses the setting takes
// for zero. A setting whose default is a text with another meaning must be named here.
func TestDefaultsOfSettings(t *testing.T) {
	constants := map[string]any{
		"max-value": mainstem.DefaultMaxValue, "max-batch-bytes": mainstem.DefaultMaxBatchBytes, "max-batch-writes": mainstem.DefaultMaxBatchWrites,
		"cache": pebblelog.DefaultCacheBytes, "memtable": pebblelog.DefaultMemTableBytes, "min-free": pebblelog.DefaultMinFree,
		"batch-id-age": pebblelog.DefaultBatchIDAge, "sweep-every": pebblelog.DefaultSweepEvery,
		"upkeep-every": topic.DefaultEvery, "compaction-memory": topic.DefaultCompactionBytes,
		"max-request": rpc.DefaultMaxRequest, "max-pending": rpc.DefaultMaxPending, "max-answers": rpc.DefaultMaxAnswers,
		"max-streams": rpc.DefaultMaxStreams, "max-snapshots": rpc.DefaultMaxSnapshots, "snapshot-lease": rpc.DefaultSnapshotLease,
		"body-timeout": rpc.DefaultBodyTimeout, "stall-timeout": rpc.DefaultStallTimeout,
		"views-max-streams": views.DefaultMaxStreams, "views-write-timeout": views.DefaultWriteTimeout,
		"kafka-partitions": kafka.DefaultPartitions, "kafka-auto-create-rate": kafka.DefaultAutoCreateRate, "kafka-auto-create-topics": kafka.DefaultAutoCreateTotal,
		"kafka-max-request": kafka.DefaultMaxRequest, "kafka-max-pending": kafka.DefaultMaxInFlight, "kafka-max-connections": kafka.DefaultMaxConnections,
		"kafka-max-fetch": kafka.DefaultMaxFetch, "kafka-write-timeout": kafka.DefaultWriteTimeout, "kafka-idle-timeout": kafka.DefaultIdleTimeout,
		"kafka-offset-retention": kafka.DefaultOffsetRetention, "kafka-group-session": kafka.DefaultGroupSession, "kafka-group-heartbeat": kafka.DefaultGroupHeartbeat,
		"kafka-lease": lease.DefaultTTL,
	}
	texts := []string{
		"memory-limit", "memory-budget", "cluster", "cluster-advertise", "omnibus", "omnibus-users", "alert-server-name", "alert-syslog", "alert-webhook",
		"alert-mapping", "kafka-advertise", "kafka-sasl",
	}
	c := (&cli.Main{Components: Components}).ServerConfig()
	for _, s := range c.Settings() {
		constant, ok := constants[s.Name]
		switch {
		case s.Default == "" || slices.Contains(texts, s.Name):
			continue
		case !ok:
			t.Errorf("this test has no constant for %s, whose default is %s", s.Name, s.Default)
			continue
		}
		if err := s.Set(s.Default); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if got, want := s.Get(), fmt.Sprint(constant); got != want {
			t.Errorf("the default of %s is %s, which is %s, but the program uses %s", s.Name, s.Default, got, want)
		}
	}
}

// TestZeroOfASetting is taken from a flag, a variable and the file.
func TestZeroOfASetting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zero.yaml")
	if err := os.WriteFile(file, []byte("stop-timeout: 0s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, c := range map[string]struct {
		flags []string
		env   []string
		file  string
	}{
		"flag":     {flags: []string{"--stop-timeout", "0s"}},
		"variable": {env: []string{"MAINSTEM_STOP_TIMEOUT=0s"}},
		"file":     {file: file},
	} {
		m := &cli.Main{Components: Components, Env: c.env}
		cmd := New(m)
		if err := cmd.ParseFlags(c.flags); err != nil {
			t.Errorf("%s: %v", from, err)
		}
		if got, err := (commands{m}).readConfig(cmd, c.file); err != nil || got.StopTimeout != 0 {
			t.Errorf("%s: stop-timeout is %v, %v", from, got.StopTimeout, err)
		}
	}
}
