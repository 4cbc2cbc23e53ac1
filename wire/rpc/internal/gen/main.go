// Command gen writes the Go code of the protocol files below wire/rpc, without protoc: it parses
// them itself and passes them to the plugins that go.mod pins as tools, so that the same sources
// give the same bytes on every machine.
//
//	go generate ./wire/rpc
//
// It takes no arguments and runs in the directory with the import root of the protocol files,
// which is where go generate starts it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// sources are the protocol files, by path below the import root.
var sources = []string{"mainstem/v1/log.proto"}

// plugins are the tools that generate code from a file, with their parameters.
var plugins = []struct{ tool, parameter string }{
	{"protoc-gen-go", "paths=source_relative"},
	{"protoc-gen-connect-go", "paths=source_relative,simple"},
}

func main() {
	if err := run(context.Background(), "."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run generates the code of sources below root and writes it there.
func run(ctx context.Context, root string) error {
	files, err := generate(ctx, root)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files by their path below root.
func generate(ctx context.Context, root string) (map[string][]byte, error) {
	protos, err := compile(ctx, root)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, p := range plugins {
		response, err := runPlugin(ctx, p.tool, &pluginpb.CodeGeneratorRequest{
			FileToGenerate: sources,
			Parameter:      proto.String(p.parameter),
			ProtoFile:      protos,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.tool, err)
		}
		for _, f := range response.File {
			out[f.GetName()] = []byte(f.GetContent())
		}
	}
	return out, nil
}

// compile returns the descriptors of sources, each after its imports.
func compile(ctx context.Context, root string) ([]*descriptorpb.FileDescriptorProto, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, sources...)
	if err != nil {
		return nil, err
	}
	var out []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var visit func(f protoreflect.FileDescriptor)
	visit = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			visit(f.Imports().Get(i).FileDescriptor)
		}
		out = append(out, protodesc.ToFileDescriptorProto(f))
	}
	for _, f := range files {
		visit(f)
	}
	return out, nil
}

// runPlugin runs a plugin pinned in go.mod on request and returns its answer.
func runPlugin(ctx context.Context, tool string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, err
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, problems.Bytes())
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(out.Bytes(), response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response, nil
}
