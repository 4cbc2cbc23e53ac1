package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runner"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// listed is an entry as `list --json` shows it.
type listed struct {
	Suite      string `json:"suite"`
	Case       string `json:"case"`
	Contender  string `json:"contender"`
	Durability string `json:"durability"`
	Transport  string `json:"transport"`
	Scale      bool   `json:"scale,omitempty"`
	About      string `json:"about,omitempty"`
	Skip       string `json:"skip,omitempty"`
}

func (p *program) list() *cobra.Command {
	var s settings
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [suite[/case]]...",
		Short: "Show the entries, and why some cannot run here",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := p.listed(s, args)
			if err != nil {
				return usage(err)
			}
			if asJSON {
				return writeJSON(p.stdout, all)
			}
			return listTable(all).Text(p.stdout)
		},
	}
	c.Flags().StringSliceVar(&s.contenders, "contenders", nil, "only these, by name or pattern")
	s.addAddresses(c)
	c.Flags().BoolVar(&asJSON, "json", false, "as a JSON array")
	return c
}

// listed returns the entries of both modes that match. A pattern may match in one only.
func (p *program) listed(s settings, selection []string) ([]listed, error) {
	all := []listed{}
	var errs []error
	for _, scale := range []bool{false, true} {
		o := runner.Options{Suites: p.suites(), Select: selection, Contenders: s.contenders, Scale: scale}
		cases, err := o.Selected()
		errs = append(errs, err)
		for _, entries := range cases {
			for _, e := range entries {
				all = append(all, list(e, s.addresses))
			}
		}
	}
	if errs[0] != nil && errs[1] != nil && len(all) == 0 {
		return nil, errors.Join(errs[0])
	}
	return all, nil
}

func list(e *suite.Entry, addresses map[string]string) listed {
	env := &suite.Env{Addresses: addresses, Log: quietLog()}
	l := listed{
		Suite: e.Suite, Case: e.Case, Contender: e.Contender, Durability: string(e.Durability), Transport: string(e.Reached(env)),
		Scale: e.Scale, About: e.About,
	}
	if l.Transport == "" {
		l.Transport = result.Unknown
	}
	if e.Skip != nil {
		l.Skip = e.Skip(env)
	}
	return l
}

func listTable(all []listed) report.Table {
	t := report.Table{Columns: []report.Column{{Title: "case", Left: true}, {Title: "contender", Left: true}, {Title: "durability", Left: true}, {Title: "transport", Left: true}, {Title: "", Left: true}}}
	last := ""
	for _, l := range all {
		name, note := l.Suite+"/"+l.Case, ""
		switch {
		case l.Skip != "":
			note = "skipped: " + l.Skip
		case l.Scale:
			note = "only with --scale"
		}
		shown := name
		if name == last {
			shown = ""
		}
		last = name
		t.Rows = append(t.Rows, []string{shown, l.Contender, l.Durability, l.Transport, note})
	}
	return t
}

func writeJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}
