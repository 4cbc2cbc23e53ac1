package kafka_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/answertest"
)

// asked has the values of the fields of a request, by their names; others keep their defaults.
type asked struct {
	name   string
	id     topic.ID // of topics
	text   map[string]string
	number map[string]int64
	flag   bool // of every bool
	absent bool // lists and structures that may be null are
}

// askedAll are the variants of every request: each API is asked, in each version, about things
// that exist, about things that do not exist, and about everything.
func askedAll(id topic.ID) []asked {
	there := map[string]string{"Topic": "t", "Group": "g", "CoordinatorKey": "g", "CoordinatorKeys": "g", "ResourceName": "t", "Mechanism": kafka.Plain,
		"MemberID": "", "ServerAssignor": "uniform", "SubscribedTopicNames": "t", "Feature": "group.version", "Principal": "User:ada",
		"ClientSoftwareName": "raw", "ClientSoftwareVersion": "1.0", "Protocol": "range", "ProtocolType": "consumer", "Groups": "g", "ConfigNames": "retention.ms"}
	numbers := map[string]int64{"SessionTimeoutMillis": 10_000, "RebalanceTimeoutMillis": 10_000, "SessionEpoch": -1, "MaxBytes": 1 << 20,
		"PartitionMaxBytes": 1 << 20, "ResourceType": 2, "UpgradeType": 1, "MaxVersionLevel": 1, "ReplicationFactor": -1, "NumPartitions": 1,
		"Timestamp": -1, "CurrentLeaderEpoch": -1, "LeaderEpoch": -1, "Generation": -1, "ProducerID": 1, "TimeoutMillis": 1000}
	missing := map[string]string{}
	for name := range there {
		missing[name] = "none"
	}
	invalid := map[string]string{}
	for name := range there {
		invalid[name] = "a b"
	}
	return []asked{
		{name: "there", id: id, text: there, number: numbers, flag: true},
		{name: "there, flags off", id: id, text: there, number: numbers},
		{name: "missing", id: topic.ID{9}, text: missing, number: numbers},
		{name: "invalid", text: invalid},
		{name: "all", text: there, number: numbers, absent: true},
	}
}

// fill sets a field of a request, called name.
func (a *asked) fill(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(a.flag)
	case reflect.String:
		v.SetString(a.text[name])
	case reflect.Array: // a UUID
		v.Set(reflect.ValueOf(a.id).Convert(v.Type()))
	case reflect.Pointer:
		if v.SetZero(); !a.absent && (v.Type().Elem().Kind() != reflect.String || a.text[name] != "") {
			v.Set(reflect.New(v.Type().Elem()))
			a.fill(name, v.Elem())
		}
	case reflect.Slice:
		if v.SetZero(); !a.absent && v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			a.fill(name, v.Index(0))
		}
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i).Name; f != "Version" && f != "UnknownTags" && f != "ReplicaState" && f != "ClusterID" {
				a.fill(f, v.Field(i))
			}
		}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, ok := a.number[name]; ok {
			v.SetInt(n)
		}
	}
}

// Java's clients fail on nulls that Kafka's schema allows and Kafka's brokers never send: no
// answer of any API in any version may have one.
func TestNoAnswerHasNullsThatKafkaNeverSends(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 2)
	fill(t, tp, 0, 3)
	keys := ask[*kmsg.ApiVersionsResponse](b.raw(t), apiVersions(), 4).ApiKeys
	for _, k := range keys {
		t.Run(kmsg.NameForKey(k.ApiKey), func(t *testing.T) {
			for v := k.MinVersion; v <= k.MaxVersion; v++ {
				ruled(t, kmsg.Key(k.ApiKey), v)
				for _, a := range askedAll(tp.ID()) {
					req := kmsg.RequestForKey(k.ApiKey)
					a.fill("", reflect.ValueOf(req).Elem())
					switch req := req.(type) {
					case *kmsg.ProduceRequest:
						req.Acks = -1 // else there is no answer
					case *kmsg.JoinGroupRequest:
						req.Group += fmt.Sprint(v, a.name) // members of one group wait for each other
					case *kmsg.DeleteTopicsRequest:
						req.TopicNames = []string{"none"} // the topic is needed
						req.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: topic.ID{9}}}
					}
					c := b.raw(t)
					ask[kmsg.Response](c, req, v) // it checks the answer
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// ruled fails the test unless every field of an answer that can be null has a rule.
func ruled(t *testing.T, key kmsg.Key, version int16) {
	t.Helper()
	for _, path := range answertest.Nullable(key, version) {
		if !slices.ContainsFunc(answertest.Rules, func(r answertest.Rule) bool {
			return r.Key == key && r.Path == path && r.Since <= version
		}) {
			t.Errorf("%s version %d: %s can be null: add a rule", key.Name(), version, path)
		}
	}
}
