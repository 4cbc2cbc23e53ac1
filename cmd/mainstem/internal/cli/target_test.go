package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// TestAPasswordComesFromAFileOrAVariable: never from a flag, which others see.
func TestAPasswordComesFromAFileOrAVariable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pw")
	if err := os.WriteFile(file, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flag string
		env  []string
		want string
	}{
		{"", nil, ""},
		{"", []string{AlertsPassword + "=two"}, "two"},
		{"", []string{AlertsPassword + "_FILE=" + file}, "one"},
		{file, []string{AlertsPassword + "=two"}, "one"},
	} {
		got, err := (&Main{Env: c.env}).Password(c.flag, AlertsPassword)
		if err != nil || got != c.want {
			t.Errorf("%q %v: %q, %v", c.flag, c.env, got, err)
		}
	}
	if _, err := (&Main{}).Password(os.DevNull, AlertsPassword); err == nil {
		t.Error("an empty file is no password")
	}
}

// TestTimeoutOfACommand is that of the flag, of the variable, or none; 0 is none, too.
func TestTimeoutOfACommand(t *testing.T) {
	for _, c := range []struct {
		flags   []string
		env     string
		limited bool
	}{
		{nil, "", false},
		{nil, "1h", true},
		{nil, "0", false},
		{[]string{"--timeout", "1h"}, "", true},
		{[]string{"--timeout", "1h"}, "0", true},
		{[]string{"--timeout", "0"}, "1h", false},
	} {
		m := &Main{Env: []string{"MAINSTEM_TIMEOUT=" + c.env}, Stdout: io.Discard, Stderr: io.Discard}
		ran := false
		root := m.Root([]*cobra.Command{{Use: "do", RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel, err := m.Context(cmd)
			if err != nil {
				return err
			}
			defer cancel()
			ran = true
			if _, limited := ctx.Deadline(); limited != c.limited {
				t.Errorf("%v, MAINSTEM_TIMEOUT=%s: limited is %t, want %t", c.flags, c.env, limited, c.limited)
			}
			return nil
		}}}, nil)
		if status := m.Run(t.Context(), root, append(c.flags, "do")); status != ExitOK || !ran {
			t.Errorf("%v, MAINSTEM_TIMEOUT=%s: exit status %d", c.flags, c.env, status)
		}
	}
}
