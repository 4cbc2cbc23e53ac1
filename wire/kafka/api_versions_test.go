package kafka_test

import (
	"slices"
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

// Java clients 3.3 to 3.7 refuse to connect where a supported feature has the minimum
// 0 (KAFKA-17011): version 3, which they send, leaves it out, and version 4 has it.
func TestApiVersionsLeavesOutFeaturesWithMinimumZero(t *testing.T) {
	c := start(t, nil, nil).raw(t)
	for v, want := range map[int16][]string{3: nil, 4: {"group.version", "transaction.version"}} {
		resp := ask[*kmsg.ApiVersionsResponse](c, apiVersions(), v)
		var supported []string
		for _, f := range resp.SupportedFeatures {
			supported = append(supported, f.Name)
			if v < 4 && f.MinVersion < 1 {
				t.Errorf("version %d: %s is supported from %d on", v, f.Name, f.MinVersion)
			}
		}
		if !slices.Equal(supported, want) {
			t.Errorf("version %d supports %v, want %v", v, supported, want)
		}
		for _, f := range resp.FinalizedFeatures {
			if f.MinVersionLevel < 1 || f.MaxVersionLevel < f.MinVersionLevel {
				t.Errorf("version %d: %s is finalized at %d to %d", v, f.Name, f.MinVersionLevel, f.MaxVersionLevel)
			}
		}
	}
}

// A client with a newer version gets the versions that are served in an answer of version 0,
// and continues on the same connection.
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
