package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// Template makes one text out of a row, in the language of text/template. A
// field that the row does not have, or that is null, is an error.
//
// Besides the standard functions it knows lower, upper, trim, replace (old, new,
// text) and json.
type Template struct {
	name string
	tmpl *template.Template
}

var functions = template.FuncMap{
	"lower":   strings.ToLower,
	"upper":   strings.ToUpper,
	"trim":    strings.TrimSpace,
	"replace": func(old, to, text string) string { return strings.ReplaceAll(text, old, to) },
	"json":    compactJSON,
}

// ParseTemplate reads a template; name is what errors call it, such as "--key".
func ParseTemplate(name, text string) (*Template, error) {
	t, err := template.New("").Funcs(functions).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "template: :"))
	}
	return &Template{name: name, tmpl: t}, nil
}

const noValue = "<no value>"

// Execute fills the template from row.
func (t *Template) Execute(row Row) ([]byte, error) {
	var out bytes.Buffer
	if err := t.tmpl.Execute(&out, row.Fields); err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, missingField(err))
	}
	// What text/template prints for a nil that no option catches, as in {{index . "x"}}.
	if bytes.Contains(out.Bytes(), []byte(noValue)) && !bytes.Contains(row.Text, []byte(noValue)) {
		return nil, fmt.Errorf("%s: the template prints a field that the line does not have", t.name)
	}
	return out.Bytes(), nil
}

func missingField(err error) error {
	var exec template.ExecError
	if !errors.As(err, &exec) {
		return err
	}
	if _, name, ok := strings.Cut(exec.Err.Error(), "map has no entry for key "); ok {
		return fmt.Errorf("the line has no field %s, or it is null", name)
	}
	return errors.New(strings.TrimPrefix(exec.Err.Error(), "template: :"))
}

// Number is how numbers appear in [Row.Fields]: with the text they were written with.
type Number = json.Number
