package osql

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"github.com/mainstemdev/mainstem"
)

// Limits of a statement: what is beyond is Invalid, and nothing is tried.
const (
	MaxText   = 4 << 20 // bytes in the text given to Split
	MaxTokens = 100_000 // in one statement
	MaxDepth  = 40      // parentheses and CASEs inside of each other
)

// Literal is a constant of a statement: a string, an integer or a real.
type Literal struct {
	Kind LiteralKind
	Text string
	Int  int64
	Real float64
	// Arg is which argument of the caller the literal stands for, counted from 1;
	// 0 if the statement spells it out.
	Arg int
}

// LiteralKind is the kind of a [Literal].
type LiteralKind byte

// The kinds of literals. The letters stand in the [Statement.Key].
const (
	StringLiteral LiteralKind = 's'
	IntLiteral    LiteralKind = 'i'
	RealLiteral   LiteralKind = 'f'
	// PlainPattern is a string that follows LIKE and has no character with a
	// meaning in a pattern.
	PlainPattern LiteralKind = 'p'
)

// Token types, as participle wants them: negative numbers.
const (
	tokenEOF lexer.TokenType = lexer.EOF - iota
	tokenIdent
	tokenKeyword
	tokenSlot
	tokenPunct
)

var symbols = map[string]lexer.TokenType{
	"EOF": tokenEOF, "Ident": tokenIdent, "Keyword": tokenKeyword, "Slot": tokenSlot, "Punct": tokenPunct,
}

// keywords cannot be names, except after a dot. Each is its own value, so that
// finding one makes no string.
var keywords = map[string]string{}

// longestKeyword is the length of the longest of them.
var longestKeyword int

func init() {
	const words = `SELECT DISTINCT TOP FROM WHERE GROUP ORDER BY HAVING AND OR XOR NOT IN LIKE BETWEEN AS ASC DESC
		INSERT INTO VALUES UPDATING UPDATE VIA SET DELETE CASE WHEN THEN ELSE END ANY ALL TRUE FALSE`
	for _, w := range strings.Fields(words) {
		keywords[w] = w
		longestKeyword = max(longestKeyword, len(w))
	}
}

// keyword returns the keyword that w is, in any case; "" if it is none.
func keyword(w string) string {
	if len(w) > longestKeyword {
		return ""
	}
	var up [16]byte
	for i := range len(w) {
		up[i] = w[i]
		if w[i] >= 'a' && w[i] <= 'z' {
			up[i] -= 'a' - 'A'
		}
	}
	return keywords[string(up[:len(w)])]
}

// place is where a statement begins in a text.
type place struct {
	at    int
	line  int // from 1
	start int // of the line
	used  int // arguments used before
}

// scanner cuts a text into tokens. Literals are taken out: a token of type Slot
// says which one stood there, and of what kind it is, so that statements that differ
// only in their literals have the same tokens, and the same key.
//
// Most statements are like one that was translated before: then the key and the
// literals are all that is needed of them, and no tokens are kept.
type scanner struct {
	text string
	args []Literal
	place
	depth int

	// Of the statement.
	key      []byte // the tokens, each with a blank behind it
	literals []Literal
	count    int    // of tokens
	first    string // the first token; "" if it is a literal
	last     string // the last token
	lastType lexer.TokenType
	keep     bool // tokens are kept
	tokens   []lexer.Token
}

func (s *scanner) errorf(format string, a ...any) error {
	return mainstem.Refusef(mainstem.KindInvalid, "sql", "line %d, column %d: %w", s.line, s.at-s.start+1, fmt.Errorf(format, a...))
}

// statement scans up to and including the next separator. more is false at the
// end of the text.
func (s *scanner) statement() (more bool, err error) {
	s.depth, s.count, s.first, s.last, s.lastType = 0, 0, "", "", tokenEOF
	s.key, s.literals, s.tokens = s.key[:0], nil, nil
	for {
		if err := s.skip(); err != nil {
			return false, err
		}
		if s.at >= len(s.text) {
			return false, nil
		}
		if s.text[s.at] == ';' {
			s.at++
			return true, nil
		}
		if s.separator() {
			return true, nil
		}
		if s.count == MaxTokens {
			return false, s.errorf("the statement has more than %d words and signs: split it", MaxTokens)
		}
		if err := s.token(); err != nil {
			return false, err
		}
	}
}

// separator takes a line that holds nothing but "go", which clients put between
// statements.
func (s *scanner) separator() bool {
	rest := s.text[s.at:]
	if len(rest) < 2 || rest[0]|0x20 != 'g' || rest[1]|0x20 != 'o' || strings.TrimSpace(s.text[s.start:s.at]) != "" {
		return false
	}
	line, _, _ := strings.Cut(rest, "\n")
	if strings.TrimSpace(line) != line[:2] {
		return false
	}
	s.at += 2
	return true
}

// skip passes blanks and comments.
func (s *scanner) skip() error {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '\n':
			s.at++
			s.line++
			s.start = s.at
		case c == ' ' || c == '\t' || c == '\r' || c == 0:
			s.at++
		case strings.HasPrefix(s.text[s.at:], "--"):
			n := strings.IndexByte(s.text[s.at:], '\n')
			if n < 0 {
				n = len(s.text) - s.at
			}
			s.at += n
		case strings.HasPrefix(s.text[s.at:], "/*"):
			n := strings.Index(s.text[s.at+2:], "*/")
			if n < 0 {
				return s.errorf("the comment has no end")
			}
			s.pass(n + 4)
		default:
			return nil
		}
	}
	return nil
}

// pass moves on by n bytes and counts their lines.
func (s *scanner) pass(n int) {
	part := s.text[s.at : s.at+n]
	if lines := strings.Count(part, "\n"); lines > 0 {
		s.line += lines
		s.start = s.at + strings.LastIndexByte(part, '\n') + 1
	}
	s.at += n
}

func (s *scanner) token() error {
	c := s.text[s.at]
	switch {
	case isLetter(c):
		s.word()
	case isDigit(c) || c == '.' && s.at+1 < len(s.text) && isDigit(s.text[s.at+1]) && s.lastType != tokenIdent:
		return s.number() // but for a dot behind a name, which belongs to it
	case c == '\'' || c == '"':
		return s.quoted(c)
	case c == '?':
		if s.used == len(s.args) {
			return s.errorf("the statement has more parameters than arguments: %d", len(s.args))
		}
		lit := s.args[s.used]
		s.used++
		lit.Arg = s.used
		s.literal(lit, 1)
	default:
		return s.punct()
	}
	if s.depth > MaxDepth {
		return s.errorf("more than %d parentheses or CASEs inside of each other", MaxDepth)
	}
	return nil
}

// add notes a token of n bytes.
func (s *scanner) add(t lexer.TokenType, value string, n int) {
	s.key = append(append(s.key, value...), ' ')
	s.note(t, value, n)
}

func (s *scanner) note(t lexer.TokenType, value string, n int) {
	if s.keep {
		s.tokens = append(s.tokens, lexer.Token{Type: t, Value: value,
			Pos: lexer.Position{Offset: s.at, Line: s.line, Column: s.at - s.start + 1}})
	}
	if s.count == 0 && t != tokenSlot {
		s.first = value
	}
	s.count++
	s.last, s.lastType = value, t
	s.at += n
}

func (s *scanner) word() {
	n := 1
	for s.at+n < len(s.text) && (isLetter(s.text[s.at+n]) || isDigit(s.text[s.at+n])) {
		n++
	}
	w := s.text[s.at : s.at+n]
	afterDot := s.lastType == tokenPunct && s.last == "."
	if k := keyword(w); k != "" && !afterDot {
		switch k {
		case "CASE":
			s.depth++
		case "END":
			s.depth--
		}
		s.add(tokenKeyword, k, n)
		return
	}
	if s.keep {
		w = strings.Clone(w) // a plan keeps names, and must not keep the whole text with them
	}
	s.add(tokenIdent, w, n)
}

// literal notes a literal of n bytes, which may have several lines.
func (s *scanner) literal(lit Literal, n int) {
	if lit.Kind == StringLiteral && s.lastType == tokenKeyword && s.last == "LIKE" && plainPattern(lit.Text) {
		lit.Kind = PlainPattern
	}
	if s.literals == nil {
		s.literals = make([]Literal, 0, someLiterals)
	}
	s.literals = append(s.literals, lit)
	s.key = append(s.key, '?', byte(lit.Kind), ' ')
	value := ""
	if s.keep {
		value = string(lit.Kind) + strconv.Itoa(len(s.literals)-1)
	}
	s.note(tokenSlot, value, 0)
	s.pass(n)
}

// someLiterals is how many literals there is room for at first.
const someLiterals = 16

// plainPattern reports whether p, as a pattern, matches just what contains it.
func plainPattern(p string) bool { return !strings.ContainsAny(p, `\.+*?()|[]{}^$`) }

func (s *scanner) number() error {
	n, real := 0, false
	for s.at+n < len(s.text) {
		c := s.text[s.at+n]
		switch {
		case isDigit(c):
		case c == '.' && !real:
			real = true
		case (c == 'e' || c == 'E') && s.exponent(n):
			real = true
			n++
		default:
			goto done
		}
		n++
	}
done:
	text := s.text[s.at : s.at+n]
	if s.at+n < len(s.text) && isLetter(s.text[s.at+n]) {
		return s.errorf("the number %s runs into the letter %q", text, s.text[s.at+n])
	}
	lit := Literal{Kind: IntLiteral}
	var err error
	if real {
		lit.Kind = RealLiteral
		lit.Real, err = strconv.ParseFloat(text, 64)
	} else {
		lit.Int, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		return s.errorf("the number %.40s is out of range", text)
	}
	s.literal(lit, n)
	return nil
}

// exponent reports whether an exponent begins n bytes on.
func (s *scanner) exponent(n int) bool {
	rest := s.text[s.at+n+1:]
	if len(rest) > 1 && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	return len(rest) > 0 && isDigit(rest[0])
}

// quoted scans a string in single or double quotes; a doubled quote stands for one.
func (s *scanner) quoted(quote byte) error {
	var b strings.Builder
	rest := s.text[s.at+1:]
	n := 1
	for {
		i := strings.IndexByte(rest, quote)
		if i < 0 {
			return s.errorf("the string has no closing %c", quote)
		}
		n += i + 1
		doubled := len(rest) > i+1 && rest[i+1] == quote
		if !doubled && b.Len() == 0 {
			s.literal(Literal{Kind: StringLiteral, Text: rest[:i]}, n)
			return nil
		}
		b.WriteString(rest[:i])
		if !doubled {
			s.literal(Literal{Kind: StringLiteral, Text: b.String()}, n)
			return nil
		}
		b.WriteByte(quote)
		rest = rest[i+2:]
		n++
	}
}

// puncts are the signs by their first byte, the longer before their beginnings.
var puncts = func() (by [256][]string) {
	for _, p := range []string{"%<=", "%>=", "%<>", "%!=", "%=", "%<", "%>", "<=", ">=", "<>", "!=", "==",
		"=", "<", ">", "(", ")", ",", ".", "+", "-", "*", "/"} {
		by[p[0]] = append(by[p[0]], p)
	}
	return by
}()

func (s *scanner) punct() error {
	for _, p := range puncts[s.text[s.at]] {
		if !strings.HasPrefix(s.text[s.at:], p) {
			continue
		}
		switch p {
		case "(":
			s.depth++
		case ")":
			s.depth--
		}
		if s.depth > MaxDepth {
			return s.errorf("more than %d parentheses or CASEs inside of each other", MaxDepth)
		}
		s.add(tokenPunct, p, len(p))
		return nil
	}
	return s.errorf("the sign %q has no meaning here", firstRune(s.text[s.at:]))
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// tokenStream hands tokens to participle.
type tokenStream struct {
	tokens []lexer.Token
	at     int
}

// Next implements [lexer.Lexer].
func (t *tokenStream) Next() (lexer.Token, error) {
	if t.at == len(t.tokens) {
		end := lexer.Token{Type: tokenEOF}
		if t.at > 0 {
			end.Pos = t.tokens[t.at-1].Pos
		}
		return end, nil
	}
	t.at++
	return t.tokens[t.at-1], nil
}

// definition tells participle the names of the token types. Statements are
// scanned before they are parsed, so it has nothing to lex itself.
type definition struct{}

// Symbols implements [lexer.Definition].
func (definition) Symbols() map[string]lexer.TokenType { return symbols }

// Lex implements [lexer.Definition].
func (definition) Lex(string, io.Reader) (lexer.Lexer, error) { return &tokenStream{}, nil }
