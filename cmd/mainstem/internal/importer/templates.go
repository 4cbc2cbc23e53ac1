package importer

import (
	"fmt"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
)

// RequiredTemplate parses text, the template of a flag that must be given.
func RequiredTemplate(flag, text string) (*rows.Template, error) {
	if text == "" {
		return nil, fmt.Errorf("%s is missing: give a template such as %s '{{.id}}'", flag, flag)
	}
	return rows.ParseTemplate(flag, text)
}

// OptionalTemplate parses text, the template of a flag. It returns nil if there is none.
func OptionalTemplate(flag, text string) (*rows.Template, error) {
	if text == "" {
		return nil, nil
	}
	return rows.ParseTemplate(flag, text)
}

// WholeLineOr fills t from row, or returns the text of the row if t is nil.
func WholeLineOr(t *rows.Template, row rows.Row) ([]byte, error) {
	if t == nil {
		return row.Text, nil
	}
	return t.Execute(row)
}
