package clusterserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/redact"
	"github.com/mainstemdev/mainstem/server"
)

// maxInspected is the number of bytes of an answer that are read.
const maxInspected = 64 << 20

// Ask sends a request about the cluster to the running server at the URL base. path is one of
// [NodesPath], [TreePath] and [InspectPath], query has its parameters, and the answer is decoded
// into v. o must not be nil; its Token, Insecure and TLSCA are used. Ask fails with the error of
// the server; Invalid for a wrong URL, or a token that would be sent in clear text; Denied for a
// wrong token; Unavailable if the server cannot be reached; Canceled if ctx ends; Corrupt if it
// cannot decode the answer.
func Ask(ctx context.Context, base, path string, query url.Values, o *server.LogOptions, v any) error {
	fail := func(kind mainstem.Kind, err error) error {
		return &mainstem.Error{Kind: kind, Op: "ask " + server.Redacted(base), Err: redact.Error(err, base)}
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return fail(mainstem.KindInvalid, fmt.Errorf("%q is no running server: want http://HOST:PORT or https://HOST:PORT", server.Redacted(base)))
	}
	if o.Token != "" && u.Scheme == "http" && server.Reachable(net.JoinHostPort(u.Hostname(), "0")) && !o.Insecure {
		return fail(mainstem.KindInvalid, fmt.Errorf("the token would travel to %s in clear text: use https, or set insecure", u.Hostname()))
	}
	trust, err := server.ClientTLS(o.TLSCA)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+path+"?"+query.Encode(), nil)
	if err != nil {
		return fail(mainstem.KindInvalid, err)
	}
	if o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+o.Token)
	}
	transport := &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}
	began := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return fail(mainstem.KindCanceled, mainstem.Ended(ctx, "", began, "the node's answer").Err)
		}
		return fail(mainstem.KindUnavailable, err)
	}
	defer resp.Body.Close()
	body := json.NewDecoder(io.LimitReader(resp.Body, maxInspected))
	switch resp.StatusCode {
	case http.StatusOK:
		if err := body.Decode(v); err != nil {
			return fail(mainstem.KindCorrupt, err)
		}
		return nil
	case http.StatusUnauthorized:
		return fail(mainstem.KindDenied, errors.New("the server wants a valid token"))
	}
	var failed Failure
	if err := body.Decode(&failed); err != nil || failed.Error == "" {
		return fail(mainstem.KindUnavailable, fmt.Errorf("it answers with status %d", resp.StatusCode))
	}
	kind, _ := mainstem.ParseKind(failed.Kind)
	return fail(kind, errors.New(failed.Error))
}
