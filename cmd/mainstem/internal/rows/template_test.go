package rows

import (
	"strings"
	"testing"
)

func firstRow(t *testing.T, text string) Row {
	t.Helper()
	rd, err := NewReader(strings.NewReader(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	row, err := rd.Next()
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestTemplate(t *testing.T) {
	row := firstRow(t, `{"author":"a-1","time":1421191887,"big":12345678901234567890.120,"nil":null,"tags":["x",null,2],"who":{"name":"Z","no":null},"ok":true,"String":"s"}`)
	for _, c := range []struct{ tmpl, want, wantErr string }{
		{tmpl: "commit", want: "commit"},
		{tmpl: "author-{{.author}}", want: "author-a-1"},
		{tmpl: "{{.time}}", want: "1421191887"},
		{tmpl: "{{.big}}", want: "12345678901234567890.120"},
		{tmpl: "{{.ok}} {{.String}}", want: "true s"},
		{tmpl: "{{.tags}}", want: `["x",null,2]`},
		{tmpl: "{{index .tags 0}} {{index .tags 1}}", want: "x null"},
		{tmpl: "{{.who}} {{.who.name}}", want: `{"name":"Z"} Z`},
		{tmpl: "{{upper .author}} {{lower .who.name}} {{replace \"-\" \"/\" .author}} {{json .who}}", want: `A-1 z a/1 {"name":"Z"}`},
		{tmpl: "{{with index . \"gone\"}}{{.}}{{else}}none{{end}}", want: "none"},
		{tmpl: "{{.gone}}", wantErr: `--key: the line has no field "gone", or it is null`},
		{tmpl: "{{.nil}}", wantErr: `--key: the line has no field "nil", or it is null`},
		{tmpl: "{{.who.no}}", wantErr: `--key: the line has no field "no", or it is null`},
		{tmpl: "{{index . \"gone\"}}", wantErr: "--key: the template prints a field that the line does not have"},
		{tmpl: "{{.author.x}}", wantErr: "can't evaluate field x"},
		{tmpl: "{{index .tags 9}}", wantErr: "out of range"},
	} {
		tmpl, err := ParseTemplate("--key", c.tmpl)
		if err != nil {
			t.Errorf("%s: %v", c.tmpl, err)
			continue
		}
		got, err := tmpl.Execute(row)
		switch {
		case c.wantErr == "" && err != nil:
			t.Errorf("%s: %v", c.tmpl, err)
		case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
			t.Errorf("%s: got %q, error %v; want the error %q", c.tmpl, got, err, c.wantErr)
		case c.wantErr == "" && string(got) != c.want:
			t.Errorf("%s: got %q, want %q", c.tmpl, got, c.want)
		}
	}
}

func TestTemplateThatDoesNotParse(t *testing.T) {
	for _, text := range []string{"{{.a", "{{nope .a}}", "{{end}}"} {
		if _, err := ParseTemplate("--stream", text); err == nil || !strings.HasPrefix(err.Error(), "--stream: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{{.a}}-{{index .b 0}}", `{"a":1,"b":[null]}`)
	f.Fuzz(func(t *testing.T, text, line string) {
		if strings.Contains(text, "range") || strings.Contains(text, "template") || strings.Contains(text, "printf") {
			t.Skip("programs that print without end are the caller's own")
		}
		tmpl, err := ParseTemplate("t", text)
		if err != nil {
			return
		}
		fields, err := parseObject([]byte(line))
		if err != nil {
			return
		}
		out, err := tmpl.Execute(Row{Fields: fields, Text: []byte(line)})
		if err == nil && strings.Contains(string(out), noValue) && !strings.Contains(line, noValue) && !strings.Contains(text, "value") {
			t.Errorf("%q printed a missing value: %q", text, out)
		}
	})
}
