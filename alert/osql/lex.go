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

// keywords cannot be names, except after a dot.
var keywords = map[string]bool{}

func init() {
	const words = `SELECT DISTINCT TOP FROM WHERE GROUP ORDER BY HAVING AND OR XOR NOT IN LIKE BETWEEN AS ASC DESC
		INSERT INTO VALUES UPDATING UPDATE VIA SET DELETE CASE WHEN THEN ELSE END ANY ALL TRUE FALSE`
	for _, w := range strings.Fields(words) {
		keywords[w] = true
	}
}

// lexed is one statement in tokens. Literals are taken out: a token of type Slot
// says which one stood there, and of what kind it is, so that statements that differ
// only in their literals have the same tokens.
type lexed struct {
	tokens   []lexer.Token
	literals []Literal
}

// scanner cuts a text into tokens.
type scanner struct {
	text  string
	at    int
	line  int // from 1
	start int // of the line
	args  []Literal
	used  int // arguments used so far
	depth int
}

func (s *scanner) errorf(format string, a ...any) error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "sql", Outcome: mainstem.NotWritten,
		Err: fmt.Errorf("line %d, column %d: %w", s.line, s.at-s.start+1, fmt.Errorf(format, a...))}
}

// statement scans up to and including the next separator. more is false at the
// end of the text.
func (s *scanner) statement() (l lexed, more bool, err error) {
	s.depth = 0
	for {
		if err := s.skip(); err != nil {
			return l, false, err
		}
		if s.at >= len(s.text) {
			return l, false, nil
		}
		if s.text[s.at] == ';' {
			s.at++
			return l, true, nil
		}
		if s.separator(&l) {
			return l, true, nil
		}
		if len(l.tokens) == MaxTokens {
			return l, false, s.errorf("the statement has more than %d words and signs: split it", MaxTokens)
		}
		if err := s.token(&l); err != nil {
			return l, false, err
		}
	}
}

// separator takes a line that holds nothing but "go", which clients put between
// statements.
func (s *scanner) separator(*lexed) bool {
	rest := s.text[s.at:]
	if len(rest) < 2 || !strings.EqualFold(rest[:2], "go") || strings.TrimSpace(s.text[s.start:s.at]) != "" {
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

func (s *scanner) token(l *lexed) error {
	c := s.text[s.at]
	switch {
	case isLetter(c):
		s.word(l)
	case isDigit(c) || c == '.' && s.at+1 < len(s.text) && isDigit(s.text[s.at+1]) && !afterName(l):
		return s.number(l)
	case c == '\'' || c == '"':
		return s.quoted(l, c)
	case c == '?':
		if s.used == len(s.args) {
			return s.errorf("the statement has more parameters than arguments: %d", len(s.args))
		}
		lit := s.args[s.used]
		s.used++
		lit.Arg = s.used
		s.literal(l, lit, 1)
	default:
		return s.punct(l)
	}
	if s.depth > MaxDepth {
		return s.errorf("more than %d parentheses or CASEs inside of each other", MaxDepth)
	}
	return nil
}

// afterName reports whether the last token is a name, so that a dot belongs to it.
func afterName(l *lexed) bool {
	return len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].Type == tokenIdent
}

func (s *scanner) add(l *lexed, t lexer.TokenType, value string, n int) {
	l.tokens = append(l.tokens, lexer.Token{Type: t, Value: value,
		Pos: lexer.Position{Offset: s.at, Line: s.line, Column: s.at - s.start + 1}})
	s.pass(n)
}

func (s *scanner) word(l *lexed) {
	n := 1
	for s.at+n < len(s.text) && (isLetter(s.text[s.at+n]) || isDigit(s.text[s.at+n])) {
		n++
	}
	w := s.text[s.at : s.at+n]
	afterDot := len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].Value == "." && l.tokens[len(l.tokens)-1].Type == tokenPunct
	if up := strings.ToUpper(w); keywords[up] && !afterDot {
		switch up {
		case "CASE":
			s.depth++
		case "END":
			s.depth--
		}
		s.add(l, tokenKeyword, up, n)
		return
	}
	s.add(l, tokenIdent, w, n)
}

func (s *scanner) literal(l *lexed, lit Literal, n int) {
	if lit.Kind == StringLiteral && afterLike(l) && plainPattern(lit.Text) {
		lit.Kind = PlainPattern
	}
	l.literals = append(l.literals, lit)
	s.add(l, tokenSlot, string(lit.Kind)+strconv.Itoa(len(l.literals)-1), n)
}

func afterLike(l *lexed) bool {
	return len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].Type == tokenKeyword && l.tokens[len(l.tokens)-1].Value == "LIKE"
}

// plainPattern reports whether p, as a pattern, matches just what contains it.
func plainPattern(p string) bool { return !strings.ContainsAny(p, `\.+*?()|[]{}^$`) }

func (s *scanner) number(l *lexed) error {
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
	s.literal(l, lit, n)
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
func (s *scanner) quoted(l *lexed, quote byte) error {
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
			s.literal(l, Literal{Kind: StringLiteral, Text: rest[:i]}, n)
			return nil
		}
		b.WriteString(rest[:i])
		if !doubled {
			s.literal(l, Literal{Kind: StringLiteral, Text: b.String()}, n)
			return nil
		}
		b.WriteByte(quote)
		rest = rest[i+2:]
		n++
	}
}

// puncts are the signs, the longer before their beginnings.
var puncts = []string{"%<=", "%>=", "%<>", "%!=", "%=", "%<", "%>", "<=", ">=", "<>", "!=", "==",
	"=", "<", ">", "(", ")", ",", ".", "+", "-", "*", "/"}

func (s *scanner) punct(l *lexed) error {
	for _, p := range puncts {
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
		s.add(l, tokenPunct, p, len(p))
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
