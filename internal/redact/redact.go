// Package redact hides credentials in the addresses of logs: the user information of
// URLs and the values of parameters such as password=. Whatever prints an address that a
// user gave, or an error that may hold one, passes it through here.
//
// It serves people who read logs and errors. Where an address is ambiguous it hides too
// much rather than too little: the host is a smaller loss than the password.
package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Mask stands in the place of what is hidden.
const Mask = "xxxxx"

var (
	// start finds where the URLs in a text begin.
	start = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://`)
	// parameter finds "name=value" of a query or of PostgreSQL's "host=a password=b", with
	// spaces around the sign, and values in quotes or with escapes.
	parameter = regexp.MustCompile(`([\w%.-]+)(\s*=\s*)('(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|(?:\\.|[^\s&\\"'` + "`" + `])*)`)
	// hostPort is an authority without user information.
	hostPort = regexp.MustCompile(`^(?:\[[0-9a-fA-F:.%]*\]|[\w.-]*)(?::\d*)?$`)
)

// secrets are parts of the names of parameters whose values are hidden, in lower case.
var secrets = []string{"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key", "jwt", "seed"}

// Address returns the address of a log, or a list of them, without its credentials. A
// user name stays if a password follows it, or if the URL is PostgreSQL's: alone, in
// others, it is a token.
func Address(s string) string {
	out, _ := hide(s, false)
	return out
}

// Text is [Address] for a text that may hold addresses: they end at white space.
func Text(s string) string {
	out, _ := hide(s, true)
	return out
}

// Error returns err with a text that has none of the credentials of the address, in
// whatever form they stand in it, nor those of other addresses in it. errors.Is and
// errors.As see err. Nil stays nil.
func Error(err error, address string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := strings.ReplaceAll(text, address, Address(address))
	_, hidden := hide(address, false)
	slices.SortFunc(hidden, func(a, b string) int { return len(b) - len(a) }) // what holds another first
	for _, h := range hidden {
		if len(h) > 2 { // a shorter one would take the text apart, and gives nothing away
			clean = strings.ReplaceAll(clean, h, Mask)
		}
	}
	if clean = Text(clean); clean == text {
		return err
	}
	return &redacted{clean, err}
}

// redacted is an error that reads differently.
type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.err }

// hide returns s without credentials, and those, as they stand in s and decoded.
func hide(s string, text bool) (string, []string) {
	var out strings.Builder
	var hidden []string
	for {
		at := start.FindStringIndex(s)
		if at == nil {
			out.WriteString(hideParameters(s, &hidden))
			return out.String(), hidden
		}
		out.WriteString(hideParameters(s[:at[0]], &hidden))
		scheme := s[at[0]:at[1]]
		s = s[at[1]:]
		end := len(s)
		if next := start.FindStringIndex(s); next != nil {
			end = next[0]
		}
		if text {
			if space := strings.IndexAny(s[:end], " \t\r\n"); space >= 0 {
				end = space
			}
		}
		out.WriteString(scheme)
		out.WriteString(hideURL(scheme, s[:end], &hidden))
		s = s[end:]
	}
}

// hideURL hides the credentials in what follows the scheme of a URL. Everything before the
// last "@" counts as user information, unless that stands in the query of an ordinary URL.
func hideURL(scheme, s string, hidden *[]string) string {
	query := len(s)
	if q := strings.IndexByte(s, '?'); q >= 0 {
		hosts, _, _ := strings.Cut(s[:q], "/")
		if at := strings.LastIndexByte(hosts, '@'); at >= 0 || plainHosts(hosts) {
			query = q
		}
	}
	at := strings.LastIndexByte(s[:query], '@')
	if at < 0 {
		return hideParameters(s, hidden)
	}
	parts := strings.Split(s[:at], ",")
	for i, p := range parts {
		user, host := p, "" // host is that of a URL before the last
		if j := strings.LastIndexByte(p, '@'); j >= 0 && i < len(parts)-1 {
			user, host = p[:j], p[j:]
		}
		parts[i] = hideUser(scheme, user, hidden) + host
	}
	return strings.Join(parts, ",") + hideParameters(s[at:], hidden)
}

// plainHosts reports whether s is a list of hosts with ports and nothing else.
func plainHosts(s string) bool {
	for h := range strings.SplitSeq(s, ",") {
		if !hostPort.MatchString(h) {
			return false
		}
	}
	return true
}

func hideUser(scheme, s string, hidden *[]string) string {
	user, password, found := strings.Cut(s, ":")
	postgres := strings.HasPrefix(strings.ToLower(scheme), "postgres")
	switch {
	case found:
		remember(password, hidden)
		return user + ":" + Mask
	case postgres || s == "":
		return s
	}
	remember(s, hidden)
	return Mask
}

func hideParameters(s string, hidden *[]string) string {
	return parameter.ReplaceAllStringFunc(s, func(found string) string {
		m := parameter.FindStringSubmatch(found)
		if !secret(m[1]) || m[3] == "" {
			return found
		}
		remember(strings.Trim(m[3], `'"`), hidden)
		return m[1] + m[2] + Mask
	})
}

// secret reports whether a parameter of this name, which may be percent-encoded, holds a secret.
func secret(name string) bool {
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(name, s) }) && !strings.Contains(name, "file")
}

// remember notes a secret in the forms in which an error may hold it.
func remember(s string, hidden *[]string) {
	*hidden = append(*hidden, s)
	if plain, err := url.PathUnescape(s); err == nil && plain != s {
		*hidden = append(*hidden, plain)
	}
	if escaped := url.QueryEscape(s); escaped != s {
		*hidden = append(*hidden, escaped)
	}
}
