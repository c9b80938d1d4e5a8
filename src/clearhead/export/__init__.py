"""Export to other runtimes: ONNX, torchao int8, CTranslate2, and a comparison with the original."""
