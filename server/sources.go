package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/readfile"
)

// envPrefix is the prefix of every environment variable that Mainstem reads.
const envPrefix = "MAINSTEM_"

func envName(setting string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// LoadFile reads settings from a YAML file: one "name: value" on each line, with the names of
// [Config.Settings]. It returns every mistake, with its line, and sets all other settings.
func (c *Config) LoadFile(path string) error {
	b, err := readfile.All(path, readfile.Text)
	if err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "configuration", Err: err}
	}
	if err := c.loadYAML(b); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "configuration " + path, Err: err}
	}
	return nil
}

func (c *Config) loadYAML(b []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // only comments
	case err != nil:
		return err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("want one YAML document, got several")
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return errors.New(`want lines such as "listen: 127.0.0.1:8080"`)
	}
	return c.loadPairs(doc.Content[0].Content)
}

func (c *Config) loadPairs(pairs []*yaml.Node) error {
	var errs []error
	settings := c.Settings()
	seen := make(map[string]bool)
	for i := 0; i+1 < len(pairs); i += 2 {
		key, value := pairs[i], pairs[i+1]
		fail := func(err error) { errs = append(errs, fmt.Errorf("line %d: %w", key.Line, err)) }
		n := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == key.Value })
		switch {
		case n < 0:
			fail(unknown("key", key.Value, names(settings)))
		case seen[key.Value]:
			fail(fmt.Errorf("%s is set twice", key.Value))
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			fail(fmt.Errorf("%s needs one value", key.Value))
		default:
			if err := settings[n].Set(value.Value); err != nil {
				fail(err)
			}
		}
		seen[key.Value] = true
	}
	return errors.Join(errs...)
}

// LoadEnv reads settings from environment variables, given as "NAME=value". A variable that
// begins with MAINSTEM_ and is neither a setting nor in others is an error, since a misspelt
// name would otherwise be ignored. A token in a variable replaces a token file, and the other way
// round.
func (c *Config) LoadEnv(environ []string, others ...string) error {
	var errs []error
	settings := c.Settings()
	valid := append(names(settings), others...)
	for i, name := range valid {
		if i < len(settings) {
			valid[i] = envName(name)
		}
	}
	if slices.ContainsFunc(environ, namesToken) {
		c.Token, c.TokenFile = "", ""
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || injected(name, value) {
			continue
		}
		switch n := slices.Index(valid, name); {
		case n < 0:
			errs = append(errs, unknown("environment variable", name, valid))
		case n < len(settings):
			if err := settings[n].Set(value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "environment", Err: err}
	}
	return nil
}

// namesToken reports whether a variable says, in either form, what the token is.
func namesToken(variable string) bool {
	name, value, _ := strings.Cut(variable, "=")
	return value != "" && (name == envName("token") || name == envName("token-file"))
}

// kubernetes matches the variables that Kubernetes adds to every container for services whose
// names begin with mainstem.
var kubernetes = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// injected reports whether Kubernetes has set a variable, so that it is no misspelt setting.
// MAINSTEM_PORT=9000, for example, was not set by Kubernetes.
func injected(name, value string) bool {
	return kubernetes.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

func names(settings []Setting) []string {
	out := make([]string, len(settings))
	for i := range settings {
		out[i] = settings[i].Name
	}
	return out
}

// unknown returns an error that name is not in valid, with the most similar valid name.
func unknown(what, name string, valid []string) error {
	hint := ""
	if near := nearest(name, valid); near != "" {
		hint = fmt.Sprintf(", did you mean %s?", near)
	}
	return fmt.Errorf("unknown %s %q%s (valid: %s)", what, name, hint, strings.Join(slices.Sorted(slices.Values(valid)), ", "))
}

// nearest returns the word of valid with the fewest edits from name, or "" if none is close
// enough to be meant.
func nearest(name string, valid []string) string {
	best, least := "", len(name)/3+2
	for _, v := range valid {
		if d := edits(strings.ToLower(name), strings.ToLower(v)); d < least {
			best, least = v, d
		}
	}
	return best
}

// edits returns the Levenshtein distance of a and b in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
