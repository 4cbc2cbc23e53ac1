package codec

import (
	"bytes"
	"encoding/json"

	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// jsonStd is encoding/json. Its encoder ends a message with a line end.
func jsonStd() codec.Factory {
	return codec.Factory{
		Name: "json", Note: "encoding/json; the encoder is kept, a message ends with a line end",
		Open: func(s codec.Shape) (codec.Worker, error) {
			w := &streamWorker{clear: s.Clear, out: s.New()}
			w.encode = json.NewEncoder(&w.w).Encode
			return &jsonWorker{w}, nil
		},
	}
}

type jsonWorker struct{ *streamWorker }

func (w *jsonWorker) Decode(src []byte) error {
	w.clear(w.out)
	return json.Unmarshal(bytes.TrimSuffix(src, []byte{'\n'}), w.out)
}
