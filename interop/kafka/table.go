package kafka

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ClientsTable draws the table of libraries and scenarios, with a numbered note
// for each reason why not. What it says yes to is what [Run] runs.
func ClientsTable(libraries []Library) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, l := range libraries {
		fmt.Fprintf(&b, " %s |", l.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(libraries)) + "\n")
	var notes []string
	for _, s := range Scenarios() {
		fmt.Fprintf(&b, "| `%s`: %s |", s.Name, s.Promise)
		for _, l := range libraries {
			b.WriteString(" " + cell(l, s, &notes) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, n := range notes {
		fmt.Fprintf(&b, "%d. %s.\n", i+1, n)
	}
	return b.String()
}

func cell(l Library, s Scenario, notes *[]string) string {
	reason := l.Cannot[s.Name]
	if reason == "" {
		return "yes"
	}
	note := l.Name + ": " + reason
	i := slices.Index(*notes, note)
	if i < 0 {
		i = len(*notes)
		*notes = append(*notes, note)
	}
	return fmt.Sprintf("no (%d)", i+1)
}

// VersionsTable draws what the broker at address says that it serves.
func VersionsTable(ctx context.Context, address string) (string, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return "", err
	}
	defer cl.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "mainstem-interop", "1"
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| key | API | versions |\n|---|---|---|\n")
	keys := resp.ApiKeys
	slices.SortFunc(keys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey) - int(b.ApiKey) })
	for _, k := range keys {
		fmt.Fprintf(&b, "| %d | %s | %d–%d |\n", k.ApiKey, kmsg.NameForKey(k.ApiKey), k.MinVersion, k.MaxVersion)
	}
	return b.String(), nil
}

// CheckDocument compares the part of a document between the comments
// "<!-- name -->" and "<!-- /name -->" with what it should be, or writes it.
func CheckDocument(t *testing.T, path, name, want string, rewrite bool) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open, end := fmt.Sprintf("<!-- %s -->\n", name), fmt.Sprintf("<!-- /%s -->", name)
	before, rest, found := strings.Cut(string(text), open)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", path, strings.TrimSpace(open), end)
	}
	want = "\n" + want + "\n"
	if got == want {
		return
	}
	if rewrite {
		if err := os.WriteFile(path, []byte(before+open+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s is not true (-document +program); -rewrite writes it:\n%s", path, cmp.Diff(got, want))
}
