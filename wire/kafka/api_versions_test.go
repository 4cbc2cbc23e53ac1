package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersions() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "raw", "1.0"
	return req
}

func TestApiVersionsInEveryVersion(t *testing.T) {
	b := start(t, nil, nil)
	for v := range int16(5) {
		resp := ask[*kmsg.ApiVersionsResponse](b.raw(t), apiVersions(), v)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) == 0 {
			t.Errorf("version %d: code %d, %d keys", v, resp.ErrorCode, len(resp.ApiKeys))
		}
		if v >= 3 && len(resp.FinalizedFeatures) == 0 {
			t.Errorf("version %d: no features", v)
		}
	}
}

// A client of the future learns in version 0 what is served, and goes on on the same
// connection.
func TestApiVersionsOfTheFuture(t *testing.T) {
	c := start(t, nil, nil).raw(t)
	frame := []byte{0, 0, 0, 13, 0, 18, 0, 99, 0, 0, 0, 7, 0, 1, 'x', 0xff, 0xff}
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
	id, body := c.receive()
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(body); err != nil || id != 7 {
		t.Fatalf("answer %d: %v", id, err)
	}
	if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) == 0 {
		t.Errorf("code %d, %d keys", resp.ErrorCode, len(resp.ApiKeys))
	}
	c.next = 10
	if resp := ask[*kmsg.ApiVersionsResponse](c, apiVersions(), 4); resp.ErrorCode != 0 {
		t.Errorf("code %d", resp.ErrorCode)
	}
}

func TestApiVersionsChecksNames(t *testing.T) {
	req := apiVersions()
	req.ClientSoftwareName = "-bad-"
	if resp := ask[*kmsg.ApiVersionsResponse](start(t, nil, nil).raw(t), req, 3); resp.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("code %d", resp.ErrorCode)
	}
}
