package cli

import (
	"bufio"
	"bytes"
	"testing"
)

// A person reads aligned columns below a head, a script lines with tabs.
func TestListOnATerminalAndForScripts(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		rows     [][]string
		want     string
	}{
		{"terminal", true, [][]string{{"shop/carts", "2"}, {"users", "10"}}, "bucket      keys\nshop/carts  2\nusers       10\n"},
		{"terminal, no rows", true, nil, ""},
		{"script", false, [][]string{{"shop/carts", "2"}, {"users", ""}}, "shop/carts\t2\nusers\t\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			m := &Main{Stdout: &out, Out: bufio.NewWriter(&out)}
			l := m.NewList("bucket", "keys")
			if l.table != nil {
				t.Fatal("a buffer is taken for a terminal")
			}
			if c.terminal {
				l.table = newTable(m.Out)
			}
			for _, row := range c.rows {
				if err := l.Row(row...); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.End(nil); err != nil {
				t.Fatal(err)
			}
			if err := m.Flush(); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("%q, want %q", out.String(), c.want)
			}
		})
	}
}
