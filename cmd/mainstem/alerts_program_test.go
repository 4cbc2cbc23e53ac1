package main

import (
	"net/http"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdFill replaces $NAME in files by the variables of the script: fill FILE...
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: fill FILE...")
	}
	for _, name := range args {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(os.Expand(ts.ReadFile(name), ts.Getenv)), 0o600))
	}
}

// cmdAsk shows the answer to a POST of JSON by the user root with the password "secret":
// ask STATUS URL BODY.
func cmdAsk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: ask STATUS URL BODY")
	}
	req, err := http.NewRequest(http.MethodPost, args[1], strings.NewReader(args[2]))
	ts.Check(err)
	req.SetBasicAuth("root", "secret")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "script-1")
	showAnswer(ts, req, args[0])
}
