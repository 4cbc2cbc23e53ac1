package kafka_test

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka"
)

// Numbers of mechanisms in the protocol.
const sha256ID, sha512ID = 1, 2

// upsert returns the part of a request with which Kafka's tools set a password.
func upsert(t *testing.T, user string, mechanism int8, password string, iterations int) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	t.Helper()
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Mechanism, up.Iterations, up.Salt = user, mechanism, int32(iterations), []byte("some salt")
	var err error
	if mechanism == sha512ID {
		up.SaltedPassword, err = pbkdf2.Key(sha512.New, password, up.Salt, iterations, sha512.Size)
	} else {
		up.SaltedPassword, err = pbkdf2.Key(sha256.New, password, up.Salt, iterations, sha256.Size)
	}
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func deletion(user string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
	return kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: user, Mechanism: mechanism}
}

// outcomes are the codes by user.
func outcomes(resp *kmsg.AlterUserSCRAMCredentialsResponse) map[string]int16 {
	out := map[string]int16{}
	for _, r := range resp.Results {
		out[r.User] = r.ErrorCode
	}
	return out
}

func TestAlterUserScramCredentials(t *testing.T) {
	b := locked(t, allMechanisms...)
	c := b.raw(t)
	ask[*kmsg.SASLHandshakeResponse](c, handshake(kafka.Plain), 1)
	ask[*kmsg.SASLAuthenticateResponse](c, authenticate("\x00alice\x00wonder land"), 1)
	change := func(ups []kmsg.AlterUserSCRAMCredentialsRequestUpsertion, dels ...kmsg.AlterUserSCRAMCredentialsRequestDeletion) map[string]int16 {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		req.Upsertions, req.Deletions = ups, dels
		return outcomes(ask[*kmsg.AlterUserSCRAMCredentialsResponse](c, req, 0))
	}
	type ups = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion
	if diff := cmp.Diff(map[string]int16{"bob": 0, "carol": 0}, change(ups{
		upsert(t, "bob", sha256ID, "b", 4096), upsert(t, "carol", sha256ID, "c", 8192), upsert(t, "carol", sha512ID, "c", 4096),
	})); diff != "" {
		t.Fatal(diff)
	}
	for _, tt := range []struct {
		mechanism, user, password string
		ok                        bool
	}{
		{kafka.ScramSHA256, "bob", "b", true},
		{kafka.Plain, "bob", "b", true},
		{kafka.ScramSHA512, "bob", "b", false}, // no such credential
		{kafka.ScramSHA256, "carol", "c", true},
		{kafka.ScramSHA512, "carol", "c", true},
		{kafka.ScramSHA512, "carol", "b", false},
	} {
		if err := login(t, b, as(tt.mechanism, tt.user, tt.password)); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	short, long, unsalted := upsert(t, "x", sha256ID, "p", 4095), upsert(t, "x", sha256ID, "p", 16385), upsert(t, "x", sha256ID, "p", 4096)
	unsalted.Salt = nil
	cut := upsert(t, "x", sha256ID, "p", 4096)
	cut.SaltedPassword = cut.SaltedPassword[1:]
	for _, tt := range []struct {
		ups  ups
		dels []kmsg.AlterUserSCRAMCredentialsRequestDeletion
		want map[string]int16
	}{
		{ups{short}, nil, map[string]int16{"x": kerr.UnacceptableCredential.Code}},
		{ups{long}, nil, map[string]int16{"x": kerr.UnacceptableCredential.Code}},
		{ups{unsalted}, nil, map[string]int16{"x": kerr.UnacceptableCredential.Code}},
		{ups{cut}, nil, map[string]int16{"x": kerr.UnacceptableCredential.Code}},
		{ups{upsert(t, "", sha256ID, "p", 4096)}, nil, map[string]int16{"": kerr.UnacceptableCredential.Code}},
		{ups{upsert(t, "x", 3, "p", 4096)}, nil, map[string]int16{"x": kerr.UnsupportedSaslMechanism.Code}},
		{ups{upsert(t, "x", 1, "p", 4096), upsert(t, "x", 1, "q", 4096)}, nil, map[string]int16{"x": kerr.DuplicateResource.Code}},
		{ups{upsert(t, "bob", 1, "p", 4096)}, []kmsg.AlterUserSCRAMCredentialsRequestDeletion{deletion("bob", 1)}, map[string]int16{"bob": kerr.DuplicateResource.Code}},
		{nil, []kmsg.AlterUserSCRAMCredentialsRequestDeletion{deletion("nobody", 1), deletion("bob", 2)}, map[string]int16{"nobody": kerr.ResourceNotFound.Code, "bob": kerr.ResourceNotFound.Code}},
		// A mistake in the changes of one user leaves that user unchanged, and does not affect others.
		{ups{upsert(t, "dave", 1, "d", 4096), upsert(t, "carol", 1, "new", 4095)}, []kmsg.AlterUserSCRAMCredentialsRequestDeletion{deletion("carol", 2)}, map[string]int16{"dave": 0, "carol": kerr.UnacceptableCredential.Code}},
		{nil, []kmsg.AlterUserSCRAMCredentialsRequestDeletion{deletion("carol", 2), deletion("bob", 1)}, map[string]int16{"carol": 0, "bob": 0}},
	} {
		if diff := cmp.Diff(tt.want, change(tt.ups, tt.dels...)); diff != "" {
			t.Error(diff)
		}
	}
	got, err := b.Users(t.Context())
	want := []kafka.User{
		{Name: "alice", Mechanisms: []string{kafka.ScramSHA256, kafka.ScramSHA512}},
		{Name: "carol", Mechanisms: []string{kafka.ScramSHA256}},
		{Name: "dave", Mechanisms: []string{kafka.ScramSHA256}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestDescribeUserScramCredentials(t *testing.T) {
	b := start(t, nil, nil)
	c := b.raw(t)
	all := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](c, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), 0)
	if all.ErrorCode != 0 || len(all.Results) != 0 {
		t.Errorf("%+v", all)
	}
	if err := b.SetUser(t.Context(), "alice", "p"); err != nil {
		t.Fatal(err)
	}
	all = ask[*kmsg.DescribeUserSCRAMCredentialsResponse](c, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), 0)
	if len(all.Results) != 1 || all.Results[0].User != "alice" || len(all.Results[0].CredentialInfos) != 2 {
		t.Fatalf("%+v", all)
	}
	if info := all.Results[0].CredentialInfos[1]; info.Mechanism != sha512ID || info.Iterations != kafka.DefaultIterations {
		t.Errorf("%+v", info)
	}
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, name := range []string{"alice", "bob", "twice", "twice"} {
		req.Users = append(req.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: name})
	}
	var codes []int16
	for _, r := range ask[*kmsg.DescribeUserSCRAMCredentialsResponse](c, req, 0).Results {
		codes = append(codes, r.ErrorCode)
	}
	if diff := cmp.Diff([]int16{0, kerr.ResourceNotFound.Code, kerr.DuplicateResource.Code}, codes); diff != "" {
		t.Error(diff)
	}
}
