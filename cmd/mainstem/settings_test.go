package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewriteSettings = flag.Bool("rewrite", false, "write docs/settings.md anew")

// TestSettingsOfDocuments: docs/settings.md has every setting of the server as the server
// knows it.
func TestSettingsOfDocuments(t *testing.T) {
	const file = "../../docs/settings.md"
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
		t.Errorf("%s does not show the settings as they are: go test ./cmd/mainstem -run SettingsOfDocuments -rewrite", file)
	}
}

// settingsPage is the text of docs/settings.md.
func settingsPage() []byte {
	var b bytes.Buffer
	b.WriteString(`# Settings of the server

Every setting of ` + "`mainstem serve`" + ` is a flag (` + "`--max-value`" + `), a key of the YAML file that ` + "`--config`" + ` names
(` + "`max-value:`" + `) and an environment variable (` + "`MAINSTEM_MAX_VALUE`" + `). Flags win over variables, variables over the
file. A name that nobody knows is an error. A size is a number of bytes such as 4096 or 16MiB, a duration one such
as 1m30s. A test writes this page from the program.

| setting | value | default | what it is |
|---|---|---|---|
`)
	c := serveConfig()
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
