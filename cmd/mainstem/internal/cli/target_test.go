package cli

import (
	"os"
	"path/filepath"
	"testing"
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
