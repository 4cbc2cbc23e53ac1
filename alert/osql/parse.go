package osql

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"github.com/mainstemdev/mainstem"
)

// Statement is one statement of a text, which is not parsed yet.
type Statement struct {
	// Key is the same for all statements that differ only in their literals,
	// blanks, comments, and the case of keywords: what a cache of translations needs.
	Key string
	// Literals are the constants of the statement, in order.
	Literals []Literal

	in    string // the text that it is in
	args  []Literal
	from  place
	first string // see scanner

	tokens []lexer.Token // once it is parsed
	tree   *statement    // the same
}

// Verb returns the first word of the statement in capitals.
func (s *Statement) Verb() string {
	if v := keyword(s.first); v != "" {
		return v
	}
	return strings.ToUpper(s.first)
}

// scan cuts the statement into tokens.
func (s *Statement) scan() error {
	c := scanner{text: s.in, args: s.args, place: s.from, keep: true}
	if _, err := c.statement(); err != nil {
		return err
	}
	s.tokens = c.tokens
	return nil
}

// Split cuts a text into its statements, which are separated by ";" or by
// lines that hold only "go". args are the values of the "?" in the text, in order:
// as many as there are. Empty statements are left out; a text without any, a text
// over [MaxText], and signs, strings or comments that make no sense are Invalid.
func Split(text string, args []Literal) ([]Statement, error) {
	if len(text) > MaxText {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "the text has %d bytes: the limit is %d; split it", len(text), MaxText)
	}
	var room [1024]byte
	s := scanner{text: text, args: args, place: place{line: 1}, key: room[:0]}
	var out []Statement
	for {
		from := s.place
		more, err := s.statement()
		if err != nil {
			return nil, err
		}
		if s.count > 0 {
			out = append(out, Statement{Key: string(s.key), Literals: s.literals, in: text, args: args, from: from, first: s.first})
		}
		if !more {
			break
		}
	}
	if s.used < len(args) {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "%d arguments for %d parameters", len(args), s.used)
	}
	if len(out) == 0 {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "the text holds no statement")
	}
	return out, nil
}

var parser = sync.OnceValues(func() (*participle.Parser[statement], error) {
	return participle.Build[statement](
		participle.Lexer(definition{}),
		participle.CaseInsensitive("Ident"),
		participle.UseLookahead(3),
	)
})

// Parse returns the error that [Translate] would return for any tables: of what is no
// statement, or one that is not supported. A Translate after it does not parse again.
// It changes s, which one goroutine at a time may use.
func (s *Statement) Parse() error {
	tree, err := s.parse()
	s.tree = tree
	return err
}

// parse returns the tree of s. What is no statement, or one that is not
// supported, is named in the error.
func (s *Statement) parse() (tree *statement, err error) {
	if s.tree != nil {
		return s.tree, nil
	}
	// The grammar is ours and the tokens are a user's: should they meet a case in
	// which the parser's library gives up with a panic, only this statement fails.
	defer func() {
		if r := recover(); r != nil {
			tree, err = nil, mainstem.Refusef(mainstem.KindInternal, "sql", "parsing a %s statement: %v", s.Verb(), r)
		}
	}()
	if err := s.scan(); err != nil {
		return nil, err
	}
	if err := s.supported(); err != nil {
		return nil, err
	}
	p, err := parser()
	if err != nil {
		return nil, &mainstem.Error{Op: "sql", Err: err}
	}
	lex, err := lexer.Upgrade(&tokenStream{tokens: s.tokens})
	if err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "%w", err)
	}
	tree, err = p.ParseFromLexer(lex)
	if err != nil {
		return nil, s.syntaxError(err)
	}
	return tree, nil
}

// syntaxError puts participle's message into words about the statement.
func (s *Statement) syntaxError(err error) error {
	var unexpected *participle.UnexpectedTokenError
	if !errors.As(err, &unexpected) {
		return mainstem.Refusef(mainstem.KindInvalid, "sql", "%w", err)
	}
	t := unexpected.Unexpected
	if t.EOF() || t.Type == tokenEOF {
		return mainstem.Refusef(mainstem.KindInvalid, "sql", "the %s statement ends too early", s.Verb())
	}
	found := t.Value
	if t.Type == tokenSlot {
		found = "the literal " + s.literalText(t)
	}
	return mainstem.Refusef(mainstem.KindInvalid, "sql", "line %d, column %d: %s is not expected there in a %s statement", t.Pos.Line, t.Pos.Column, found, s.Verb())
}

func (s *Statement) literalText(t lexer.Token) string {
	var at slot
	if err := at.Capture([]string{t.Value}); err != nil || at.Index >= len(s.Literals) {
		return t.Value
	}
	return s.Literals[at.Index].String()
}

// heads are the statements that there are; of CREATE, ALTER, DROP and SVC the
// second word counts, too.
var heads = map[string][]string{
	"SELECT": nil, "INSERT": nil, "UPDATE": nil, "DELETE": nil, "DESCRIBE": nil, "DESC": nil, "USE": nil,
	"CREATE": {"TABLE", "DATABASE", "INDEX"},
	"ALTER":  {"TABLE", "TRIGGER"},
	"DROP":   {"TABLE", "DATABASE", "INDEX"},
	"SVC":    {"UPDATE"},
}

func (s *Statement) supported() error {
	verb := s.Verb()
	seconds, ok := heads[verb]
	if verb == "" || s.tokens[0].Type == tokenPunct {
		return mainstem.Refusef(mainstem.KindInvalid, "sql", "a statement begins with a word, not with %s", s.text(0))
	}
	if ok && seconds == nil {
		return nil
	}
	full := verb
	for i := 1; i < len(s.tokens) && i < 4 && s.tokens[i].Type != tokenSlot; i++ {
		w := strings.ToUpper(s.tokens[i].Value)
		if w == "OR" || w == "REPLACE" {
			continue // CREATE OR REPLACE TRIGGER
		}
		full += " " + w
		if slices.Contains(seconds, w) {
			return nil
		}
		break
	}
	if !ok {
		full = verb
	}
	return mainstem.Refusef(mainstem.KindUnsupported, "sql", "the statement %s is not supported", full)
}

func (s *Statement) text(i int) string {
	if s.tokens[i].Type == tokenSlot {
		return s.literalText(s.tokens[i])
	}
	return s.tokens[i].Value
}

// String returns the literal as a statement spells it.
func (l Literal) String() string {
	switch l.Kind {
	case IntLiteral:
		return fmt.Sprint(l.Int)
	case RealLiteral:
		return fmt.Sprint(l.Real)
	}
	return "'" + strings.ReplaceAll(l.Text, "'", "''") + "'"
}
