package main

import (
	"fmt"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
)

// requiredTemplate parses the template of a flag that must be given.
func requiredTemplate(flag, text string) (*rows.Template, error) {
	if text == "" {
		return nil, fmt.Errorf("%s is missing: give a template such as %s '{{.id}}'", flag, flag)
	}
	return rows.ParseTemplate(flag, text)
}

// optionalTemplate returns nil if the flag was not given.
func optionalTemplate(flag, text string) (*rows.Template, error) {
	if text == "" {
		return nil, nil
	}
	return rows.ParseTemplate(flag, text)
}

// wholeLineOr fills t from row, or without t returns the row itself.
func wholeLineOr(t *rows.Template, row rows.Row) ([]byte, error) {
	if t == nil {
		return row.Text, nil
	}
	return t.Execute(row)
}
