package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// hook serves a webhook over HTTP.
func hook(t testing.TB, sink ingest.Sink, o *ingest.WebhookOptions) (*ingest.Webhook, string) {
	t.Helper()
	h, err := ingest.OpenWebhook(sink, o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return h, s.URL
}

func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode, string(text)
}

// notify returns a notification about one alert.
func notify(status, startsAt, endsAt string) string {
	return fmt.Sprintf(`{"version":"4","groupKey":"{}:{alertname=\"DiskFull\"}","truncatedAlerts":0,"status":%q,"receiver":"mainstem","groupLabels":{"alertname":"DiskFull"},
		"commonLabels":{},"commonAnnotations":{},"externalURL":"http://alertmanager:9093","alerts":[{"status":%[1]q,"labels":{"alertname":"DiskFull","instance":"db-1:9100","job":"node",
		"severity":"critical","mountpoint":"/"},"annotations":{"summary":"the disk of db-1 is full","runbook":"r"},"startsAt":%q,"endsAt":%q,"generatorURL":"http://prom/graph","fingerprint":"c0ffee"}]}`, status, startsAt, endsAt)
}

const never = "0001-01-01T00:00:00Z"

// TestResolvedAlertsAreCleared by the automation of the server, also when the alert
// fired and ended within one second.
func TestResolvedAlertsAreCleared(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 10, 0, time.UTC)
	s, sink := server(t, func() time.Time { return at })
	h, url := hook(t, sink, &ingest.WebhookOptions{ReceiverOptions: ingest.ReceiverOptions{Now: func() time.Time { return at }}})
	if code, text := post(t, url+"/any/path", notify("firing", "2026-02-03T04:05:06.1Z", never)); code != 200 {
		t.Fatal(code, text)
	}
	problem := "select Node, NodeAlias, AlertGroup, AlertKey, Manager, Severity, Type, Summary, FirstOccurrence, LastOccurrence, Tally, URL, ExpireTime from alerts.status where Type = 1"
	want(t, query(t, s, problem), "db-1|db-1:9100|DiskFull|instance=db-1:9100,job=node,mountpoint=/,severity=critical|alertmanager|5|1|the disk of db-1 is full|1770091506|1770091506|1|http://prom/graph|0")
	// It goes on: counted once more. The same notification twice at once: it is not.
	at = at.Add(time.Minute)
	for range 2 {
		if code, text := post(t, url, notify("firing", "2026-02-03T04:05:06.1Z", never)); code != 200 {
			t.Fatal(code, text)
		}
	}
	want(t, query(t, s, "select Tally from alerts.status"), "2")
	if code, text := post(t, url, notify("resolved", "2026-02-03T04:05:06.1Z", "2026-02-03T04:05:06.2Z")); code != 200 {
		t.Fatal(code, text)
	}
	want(t, query(t, s, "select Type, Severity from alerts.status order by Type"), "1|5", "2|1")
	if err := s.RunAutomation(t.Context(), "generic_clear"); err != nil {
		t.Fatal(err)
	}
	want(t, query(t, s, "select Type, Severity from alerts.status order by Type"), "1|0", "2|0")
	// It fires again, and what was resolved before does not clear it.
	at = at.Add(time.Minute)
	for _, n := range []string{notify("firing", "2026-02-03T04:06:30Z", never), notify("resolved", "2026-02-03T04:05:06.1Z", "2026-02-03T04:05:06.2Z")} {
		if code, text := post(t, url, n); code != 200 {
			t.Fatal(code, text)
		}
	}
	if err := s.RunAutomation(t.Context(), "generic_clear"); err != nil {
		t.Fatal(err)
	}
	want(t, query(t, s, "select Type, Severity from alerts.status where Type = 1"), "1|5")
	if c := h.Counters(); c.Requests != 6 || c.Received != 6 || c.Written != 6 || c.Malformed != 0 {
		t.Errorf("%+v", c)
	}
}

// TestOneNameSeveralSeverities: rules of one name with a threshold for each severity are alerts of
// their own. The one that is resolved is cleared, the other goes on.
func TestOneNameSeveralSeverities(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 10, 0, time.UTC)
	s, sink := server(t, func() time.Time { return at })
	_, url := hook(t, sink, &ingest.WebhookOptions{ReceiverOptions: ingest.ReceiverOptions{Now: func() time.Time { return at }}})
	critical := func(status, endsAt string) string { return notify(status, "2026-02-03T04:05:06Z", endsAt) }
	warning := strings.Replace(critical("firing", never), `"severity":"critical"`, `"severity":"warning"`, 1)
	for _, body := range []string{warning, critical("firing", never)} {
		if code, text := post(t, url, body); code != 200 {
			t.Fatal(code, text)
		}
	}
	problems := "select Severity, Tally from alerts.status where Type = 1 order by Serial"
	want(t, query(t, s, problems), "2|1", "5|1")
	if code, text := post(t, url, critical("resolved", "2026-02-03T04:05:08Z")); code != 200 {
		t.Fatal(code, text)
	}
	if err := s.RunAutomation(t.Context(), "generic_clear"); err != nil {
		t.Fatal(err)
	}
	want(t, query(t, s, problems), "2|1", "0|1")
}

// TestASinkWithoutUpdating is what a server is that is reached by HTTP.
func TestASinkWithoutUpdating(t *testing.T) {
	inner := &memory{}
	_, url := hook(t, ingest.SinkFunc(func(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error {
		if len(updating) > 0 {
			return &mainstem.Error{Kind: mainstem.KindUnsupported, Err: errors.New("no updating")}
		}
		return inner.InsertRows(ctx, table, columns, rows)
	}), nil)
	if code, text := post(t, url, notify("firing", "2026-02-03T04:05:06.1Z", never)); code != 200 {
		t.Fatal(code, text)
	}
	want(t, inner.all("AlertGroup"), "DiskFull")
}

// TestPrometheusItself posts to us as if we were an Alertmanager.
func TestPrometheusItself(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 10, 0, time.UTC)
	s, sink := server(t, func() time.Time { return at })
	_, url := hook(t, sink, &ingest.WebhookOptions{ReceiverOptions: ingest.ReceiverOptions{Now: func() time.Time { return at }}})
	alerts := func(ends time.Time) string {
		b, err := json.Marshal([]map[string]any{
			{"labels": map[string]string{"alertname": "Down", "instance": "a:1", "severity": "page"}, "annotations": map[string]string{"description": "a is down"},
				"startsAt": "2026-02-03T04:00:00Z", "endsAt": ends, "generatorURL": "g"},
			{"labels": map[string]string{"alertname": "Odd"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, ends := range []time.Duration{4 * time.Minute, 5 * time.Minute} {
		if code, text := post(t, url+"/prefix"+ingest.PrometheusPath, alerts(at.Add(ends))); code != 200 {
			t.Fatal(code, text)
		}
		at = at.Add(time.Minute)
	}
	q := "select Identifier, Node, Severity, Type, Tally, ExpireTime, LastOccurrence from alerts.status order by Serial"
	want(t, query(t, s, q),
		"alertmanager:Down:instance=a:1,severity=page:firing|a|5|1|2|670|1770091200", // 04:11:10, five minutes after the second time
		"alertmanager:Odd::firing|alertmanager|3|1|2|0|1770091570")
	// Nobody speaks of it any more: it ends when it said it would.
	at = time.Date(2026, 2, 3, 4, 11, 12, 0, time.UTC)
	if err := s.RunAutomation(t.Context(), "expire"); err != nil {
		t.Fatal(err)
	}
	want(t, query(t, s, "select Severity from alerts.status where AlertGroup = 'Down'"), "0")
	if code, text := post(t, url+ingest.PrometheusPath, alerts(at.Add(-time.Second))); code != 200 {
		t.Fatal(code, text)
	}
	want(t, query(t, s, "select Severity, LastOccurrence from alerts.status where AlertGroup = 'Down' and Type = 2"), "1|1770091871")
}

// TestARealNotification is one that an Alertmanager has sent, as its documentation shows it.
func TestARealNotification(t *testing.T) {
	body, err := os.ReadFile("testdata/notification.json")
	if err != nil {
		t.Fatal(err)
	}
	s, sink := server(t, nil)
	_, url := hook(t, sink, &ingest.WebhookOptions{ReceiverOptions: ingest.ReceiverOptions{Mapping: mapping(t, ingest.Alertmanager, "alertmanager: {drop: [{field: label.env, equals: test}]}")}})
	if code, text := post(t, url, string(body)); code != 200 {
		t.Fatal(code, text)
	}
	want(t, query(t, s, "select Node, AlertGroup, Severity, Type from alerts.status order by Identifier"), "api-1|HighLatency|2|1", "api-2|HighLatency|1|2")
}

func TestRequestsThatAreRefused(t *testing.T) {
	sink := &memory{}
	h, url := hook(t, sink, &ingest.WebhookOptions{MaxBody: 2000, MaxAlerts: 2})
	for _, c := range []struct {
		path, body string
		code       int
		text       string
	}{
		{"/", "", 400, "JSON"},
		{"/", "[]", 400, "JSON"},
		{"/", `{"version":"3","alerts":[]}`, 400, `version "3"`},
		{"/", `{"version":"4","alerts":[{"status":"firing"}]}`, 422, "alert 1: it has no labels"},
		{"/", `{"version":"4","alerts":[{"status":"on","labels":{"a":"b"}}]}`, 422, "status"},
		{"/", notify("resolved", "2026-02-03T04:05:06.1Z", "2025-02-03T04:05:06.2Z"), 422, "it ends before it starts"},
		{"/", notify("firing", "yesterday", never), 400, "JSON"},
		{"/", `{"version":"4","x":"` + strings.Repeat("x", 2000) + `"}`, 413, "too long"},
		{ingest.PrometheusPath, `{}`, 400, "JSON"},
		{ingest.PrometheusPath, `[{"labels":{"a":"1"}},{"labels":{"a":"2"}},{"labels":{"a":"3"}}]`, 413, "too many"},
	} {
		if code, text := post(t, url+c.path, c.body); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s %.60s: %d %s", c.path, c.body, code, text)
		}
	}
	for _, try := range []func() (*http.Response, error){
		func() (*http.Response, error) { return http.Get(url) },
		func() (*http.Response, error) { return http.Post(url, "text/plain", strings.NewReader("{}")) },
	} {
		resp, err := try()
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 405 && resp.StatusCode != 415 {
			t.Error(resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if c := h.Counters(); c.Malformed != 9 || c.Received != 3 || c.Unmapped != 3 || len(sink.rows) != 0 {
		t.Errorf("%+v", c)
	}
	if code, text := post(t, url, `{"version":"4","alerts":[],"unknown":1}`); code != 200 {
		t.Error(code, text)
	}
	sink.setFail(func([][]any) error { return &mainstem.Error{Kind: mainstem.KindInvalid, Err: errors.New("never")} })
	if code, text := post(t, url, notify("firing", "2026-02-03T04:05:06.1Z", never)); code != 422 || !strings.Contains(text, "never") {
		t.Error(code, text)
	}
	for _, o := range []ingest.WebhookOptions{{MaxBody: -1}, {MaxAlerts: -1}} {
		if _, err := ingest.OpenWebhook(sink, &o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestAnOddAlertCostsNoOthers: a notification that is refused does not come again.
func TestAnOddAlertCostsNoOthers(t *testing.T) {
	good := `{"status":"firing","labels":{"alertname":"Down"}}`
	for path, odd := range map[string]string{
		"/":                   `{"version":"4","alerts":[{"status":"firing"},%s,{"status":"on","labels":{"alertname":"a"}}]}`,
		ingest.PrometheusPath: `[{"labels":{}},%s,{"labels":{"alertname":"a"},"startsAt":"2026-02-03T04:05:06Z","endsAt":"2026-02-03T04:05:05Z"}]`,
	} {
		sink := &memory{}
		h, url := hook(t, sink, nil)
		if code, text := post(t, url+path, fmt.Sprintf(odd, good)); code != 422 || !strings.Contains(text, "alert 3: it") {
			t.Errorf("%s: %d %s", path, code, text)
		}
		want(t, sink.all("AlertGroup"), "Down")
		if c := h.Counters(); c.Received != 3 || c.Unmapped != 2 || c.Written != 1 || c.Malformed != 0 {
			t.Errorf("%s: %+v", path, c)
		}
	}
}

// TestAnAnswerMeansWritten: while the sink fails there is none; what was taken is
// written when it works again.
func TestAnAnswerMeansWritten(t *testing.T) {
	sink := &memory{fail: func([][]any) error { return errors.New("away") }}
	h, url := hook(t, sink, nil)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(notify("firing", "2026-02-03T04:05:06.1Z", never))))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			err = errors.New(resp.Status)
		}
		answered <- err
	}()
	testkit.Eventually(t, "it is tried again", func() bool { return h.Counters().Retries > 0 })
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("an answer while nothing was written: %v", err)
	}
	testkit.Eventually(t, "the request ends", func() bool { return h.Counters().Abandoned == 1 })
	sink.setFail(nil)
	testkit.Eventually(t, "it is written", func() bool { return h.Counters().Written == 1 })
	closed, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Close(closed); err != nil {
		t.Error(err)
	}
	if code, _ := post(t, url, notify("firing", "2026-02-03T04:05:06.1Z", never)); code != 503 {
		t.Errorf("after Close: %d", code)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestAlertsWithoutRoomAreCounted: the client goes while some of its alerts wait for the queue.
func TestAlertsWithoutRoomAreCounted(t *testing.T) {
	open := make(chan struct{})
	sink := ingest.SinkFunc(func(context.Context, string, []string, [][]any, ...string) error {
		<-open
		return nil
	})
	h, _ := hook(t, sink, &ingest.WebhookOptions{ReceiverOptions: ingest.ReceiverOptions{Queue: 1, BatchRows: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const alerts = 10
	body := "[" + strings.Repeat(`{"labels":{"alertname":"x"}},`, alerts-1) + `{"labels":{"alertname":"x"}}]`
	answer := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodPost, ingest.PrometheusPath, strings.NewReader(body)))
	}()
	// One is being written, one is in the queue, one waits for room.
	testkit.Eventually(t, "the queue is full", func() bool { return h.Counters().Waiting == 3 })
	cancel()
	<-done
	if c := h.Counters(); answer.Code != 503 || c.Received != alerts || c.Waiting != 2 || c.Overflow != alerts-2 {
		t.Errorf("%d, %+v", answer.Code, c)
	}
	close(open)
	testkit.Eventually(t, "the others are written", func() bool { return h.Counters().Written == 2 })
	if c := h.Counters(); c.Waiting != 0 || c.Lost != 0 {
		t.Errorf("%+v", c)
	}
}

func FuzzWebhook(f *testing.F) {
	f.Add(false, []byte(notify("firing", "2026-02-03T04:05:06.1Z", never)))
	f.Add(true, []byte(`[{"labels":{"alertname":"x"},"endsAt":"2026-02-03T04:05:06.1Z"}]`))
	h, err := ingest.OpenWebhook(ingest.SinkFunc(func(context.Context, string, []string, [][]any, ...string) error { return nil }), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = h.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, prometheus bool, body []byte) {
		path := "/"
		if prometheus {
			path = ingest.PrometheusPath
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
		switch w.Code {
		case 200, 400, 413, 422:
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

// TestDecodingEndsAtTheLimit: what is behind it would take many times the memory of its text.
func TestDecodingEndsAtTheLimit(t *testing.T) {
	_, url := hook(t, &memory{}, &ingest.WebhookOptions{MaxAlerts: 2})
	const alert = `{"status":"firing","labels":{"alertname":"x"}}`
	list := "[" + strings.Repeat(alert+",", 2) + `{"labels":7}]`
	for path, body := range map[string]string{"/": `{"version":"4","alerts":` + list + `}`, ingest.PrometheusPath: list} {
		if code, text := post(t, url+path, body); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: an alert too many: %d %s", path, code, text)
		}
	}
	var labels strings.Builder
	for i := range ingest.MaxFields {
		fmt.Fprintf(&labels, `"l%d":"v",`, i)
	}
	if code, text := post(t, url+ingest.PrometheusPath, `[{"labels":{`+labels.String()+`"last":7}}]`); code != http.StatusBadRequest || !strings.Contains(text, "more than 1000 labels") {
		t.Errorf("labels too many: %d %s", code, text)
	}
}

// Many alerts take memory, also in a small request.
func TestAlertsDrawFromTheBudget(t *testing.T) {
	budgeted := budget.New("process", 1<<20)
	h, url := hook(t, &memory{}, &ingest.WebhookOptions{Memory: budgeted})
	h.SetMemoryWait(testkit.Patience)
	const alert = `{"labels":{"alertname":"x"}}`
	many := "[" + strings.Repeat(alert+",", 200) + alert + "]"
	if len(many) > 16<<10 {
		t.Fatalf("the request has %d bytes", len(many))
	}
	full := budgeted.Child("alert requests", 0).Hold()
	full.Take(1 << 20)
	answered := make(chan int, 1)
	go func() {
		code, _ := post(t, url+ingest.PrometheusPath, many)
		answered <- code
	}()
	testkit.Eventually(t, "it waits for memory", func() bool { return len(answered) > 0 || budgeted.Stats()[1].Waiting == 1 })
	if len(answered) > 0 {
		t.Error("it takes no memory")
	}
	full.Release()
	if code := <-answered; code != http.StatusOK {
		t.Error(code)
	}
	testkit.Eventually(t, "all memory is given back", func() bool { return budgeted.Stats()[0].Used == 0 })
}

// A large request takes memory from the budget and waits for it; a small one does not, and
// afterwards nothing is held.
func TestRequestsDrawFromTheBudget(t *testing.T) {
	budgeted := budget.New("process", 1<<20)
	sink := &memory{}
	h, url := hook(t, sink, &ingest.WebhookOptions{Memory: budgeted})
	h.SetMemoryWait(testkit.Patience)
	large := strings.Repeat(" ", 50_000) + notify("firing", "2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z")
	full := budgeted.Child("alert requests", 0).Hold()
	full.Take(1 << 20)
	type answer struct {
		status int
		text   string
	}
	answered := make(chan answer, 1)
	go func() {
		status, text := post(t, url, large)
		answered <- answer{status, text}
	}()
	testkit.Eventually(t, "it waits for memory", func() bool { return budgeted.Stats()[1].Waiting == 1 })
	if status, text := post(t, url, notify("firing", "2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z")); status != http.StatusOK {
		t.Errorf("a small request: %d %s", status, text)
	}
	full.Release()
	if a := <-answered; a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.text)
	}
	testkit.Eventually(t, "all memory is given back", func() bool { return budgeted.Stats()[0].Used == 0 })
}
