"""Pages with oddities, for comparison with a browser. Here: markup seen in the wild and corners of the standard.

Each is a body (bytes) and a Content-Type; the right answers are what Chromium says (`test_chromium`).
"""

# ruff: noqa: E501 - pages and markers are data, one a line

from __future__ import annotations

HTML = "text/html"
UTF8 = "text/html; charset=utf-8"
XHTML = "application/xhtml+xml"


def _page(text: str, kind: str = UTF8, encoding: str = "utf-8") -> tuple[bytes, str]:
    return text.encode(encoding), kind


ODDITIES: dict[str, tuple[bytes, str]] = {
    "href_spaces": _page('<a href="  /a b\t\n/c ">x</a><a href=" \n">y</a><a href>z</a><a href="">w</a><a>no</a>'),
    "unquoted": _page("<a href=/x?a=1&b=2/ rel=nofollow>t</a><a href=y/>u</a><a href='z' rel=\"UGC, Sponsored\tnoFollow\">v</a>"),
    "duplicate_attributes": _page('<a href=first href=second rel=a rel=b>t</a>'),
    "entities": _page('<a href="?a=1&amp;b=2&copy=3&copy;=4&lt=5&#x41;&#0;&#x80;&#1114112;&notit;&not">&AMP; &ampx &nbsp;x&nbsp; &#8203;</a>'),
    "nul_bytes": (b'<a hr\0ef=x>1</a><a href="a\0b">t\0u</a><a href=/\0>v</a><\0a href=q>w</a>', UTF8),
    "nested_anchors": _page('<a href=1>one<a href=2>two<div><a href=3>three</div></a>four<p>five</a>six'),
    "anchor_in_table": _page('<table><a href=1>foster<tr><td><a href=2>cell</td><td>x</a><a href=3>y</table><a href=4>z'),
    "formatting_reconstruction": _page('<p><a href=1><b>x</p><p>y</b></a></p><a href=2><p>z</a>q</p>'),
    "adoption_agency": _page('<a href=1><div><a href=2>x</div>y</a><a href=3><b><i>t</a>u</b></i>'),
    "noscript": _page('<head><noscript><link rel=canonical href=/c><a href=h>h</a></noscript></head><body><noscript><a href=b>b</a><img src=x></noscript>'),
    "inert_content": _page(
        '<template><a href=t>t</a></template><script>"<a href=s>"</script><style>a{}</style><!-- <a href=c> --><textarea><a href=ta></textarea>'
        "<xmp><a href=x></xmp><iframe><a href=i></a></iframe><noembed><a href=ne></a></noembed><noframes><a href=nf></a></noframes>"
        "<title><a href=ti></a></title><select><option><a href=o>o</a></select><a href=real>r</a>"
    ),
    "comment_corners": _page("<!--><a href=1>1</a>--><!---><a href=2>2</a>--><!-- a --!><a href=3>3</a><!-- -- ><a href=4>4</a>--><a href=5>5</a><!x><a href=6>6</a></!><a href=7>7</a><?php <a href=8>8</a>?><a href=9>9</a>"),
    "cdata": _page("<![CDATA[<a href=1>1</a>]]><svg><![CDATA[<a href=2>]]><a href=3>3</a></svg><a href=4>4</a>"),
    "svg_links": _page('<svg><a href="/s"><text>svg</text></a><a xlink:href="/x">x</a><foreignObject><a href=f>f</a></foreignObject><title>t</title><desc><a href=d>d</a></desc></svg><title>real</title>'),
    "math_links": _page('<math><mi><a href=m>m</a></mi><annotation-xml encoding="text/html"><a href=n>n</a></annotation-xml><a href=o>o</a></math>'),
    "base_relative": _page('<base href="/dir/"><a href=x>x</a><base href="/other/"><a href=y>y</a>'),
    "base_after_link": _page('<a href=x>x</a><div><base href="https://cdn.example/z/"></div><a href="?q">q</a><a href="#f">f</a><a href="">e</a>'),
    "base_data": _page('<base href="data:text/html,x"><base href="/b/"><a href=x>x</a>'),
    "base_javascript": _page('<base href="javascript:1"><a href=x>x</a>'),
    "base_unparsable": _page('<base href="http://[bad/"><base href="/b/"><a href=x>x</a>'),
    "base_empty": _page('<base href=""><base href="/b/"><a href=x>x</a>'),
    "base_without_href": _page('<base target=_blank><base href="/b/"><a href=x>x</a>'),
    "base_in_svg": _page('<svg><base href="/s/"></svg><a href=x>x</a>'),
    "base_in_template": _page('<template><base href="/t/"></template><a href=x>x</a>'),
    "base_mailto": _page('<base href="mailto:x@example.com"><a href=x>x</a><a href="#f">f</a><a href="/y">y</a>'),
    "schemes": _page('<a href="mailto:a b@c?subject=ü\'">m</a><a href="JavaScript:void(0)">j</a><a href="tel:+1 2">t</a><a href="data:text/html,<p>é">d</a><a href="blob:https://a/b">b</a><a href="about:blank#x">a</a><a href="file:///c|/x/..">f</a><a href="ws://h:80/\'?\'">w</a><a href="foo:bar baz">o</a><a href="ftp://u:p@h:21/">p</a>'),
    "odd_urls": _page('<a href="//Host.Example//a/../b">1</a><a href="\\\\h\\p">2</a><a href="http:x">3</a><a href="https:/x">4</a><a href="https:///x">5</a><a href="http://ex.com:080/">6</a><a href="http://1.2.3/">7</a><a href="http://0x7f.1/">8</a><a href="http://[::1%25x]/">9</a><a href="http://a b/">10</a><a href="http://ex%41mple.com/">11</a><a href="http://☃.net/ü?ü#ü">12</a><a href="?">13</a><a href="#">14</a><a href="http://h/%zz%2f%2F%7e">15</a><a href="http://h:99999/">16</a><a href="http://u@h@i/">17</a><a href="..">18</a><a href="./../../..//x">19</a><a href="%2e%2E/x">20</a>'),
    "rendered_text": _page("<a href=1> a <b> b </b>c<br>d<p>e</p>f <i>g</i></a><a href=2><div>x</div><div>y</div></a><a href=3>p<span>q</span>r</a><a href=4><ul><li>i<li>j</ul></a><a href=5><table><tr><td>c1<td>c2<tr><td>c3</table></a>"),
    "hidden_text": _page('<a href=1>a<span hidden>b</span><span style="display:none">c</span><span style="DISPLAY : NONE !important">d</span><script>e</script><style>f</style>g</a><a href=2 hidden>whole <b>x</b><script>s</script></a><div style="display:none"><a href=3>in <i>hidden</i><br>z</a></div><a href=4>v<span style="visibility:hidden">i<b style="visibility:visible">w</b></span>x</a><a href=5><span style="color:red;display:none;">q</span>r</a>'),
    "replaced_text": _page('<a href=1><img alt="an image" src=x></a><a href=2>t<img alt=i>u</a><a href=3><input value=v><button>b</button><select><option>o</select><textarea>ta</textarea></a><a href=4><video>vid</video><audio>aud</audio><object>obj</object><iframe>ifr</iframe><canvas>can</canvas></a><a href=5><svg><title>st</title><text>sv</text></svg></a><a href=6><picture><source><img alt=p></picture></a><a href=7><noscript>ns</noscript></a><a href=8><meter>m</meter><progress>p</progress></a>'),
    "ruby_details": _page("<a href=1><ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby></a><a href=2><details><summary>s</summary>d</details></a><a href=3><details open><summary>s</summary>d</details></a><a href=4><dialog>dlg</dialog>x</a><a href=5>a<wbr>b&shy;c</a><a href=6><q>q</q></a>"),
    "preformatted": _page("<pre><a href=1>a  b\n  c</a></pre><a href=2 style='white-space:pre'>a  b</a><a href=3>\u00a0a\u00a0\u00a0b\u2003c</a><a href=4>a\u3000b</a><textarea>\n<a href=q></textarea>"),
    "blocks_in_inline": _page("<a href=1><h2>Head</h2><span>line</span><hr>x</a><a href=2><span>a</span>\n<span>b</span></a><a href=3>a<!-- c -->b</a><a href=4>x<center>y</center></a><a href=5>x<custom-el>y</custom-el>z</a><a href=6>a<button>b</button>c</a><a href=7>a<fieldset>b<legend>c</legend></fieldset></a>"),
    "frameset": _page('<frameset><frame src=a><frame src=b><noframes><a href=nf>n</a></noframes></frameset><a href=after>x</a>'),
    "body_attributes": _page("<html><body><a href=1>1</a></body></html><a href=2>2</a><body class=x><a href=3>3</a><html lang=de>"),
    "plaintext": _page("<a href=1>1</a><plaintext><a href=2>2</a>"),
    "unclosed_attribute": _page('<a href=1>1</a><a href="2>2</a><a href="3">3</a>'),
    "unclosed_tag": _page("<a href=1>1</a><a href=2"),
    "unclosed_comment": _page("<a href=1>1</a><!-- <a href=2>2</a>"),
    "unclosed_script": _page("<a href=1>1</a><script><a href=2>2</a>"),
    "script_escapes": _page('<script><!--<script></script><a href=in></script>--></script><a href=out>o</a><script>/*<!--*/</script><a href=x>x</a>'),
    "area_map": _page('<map name=m><area href=1 alt="An area" rel=nofollow><area href=2><area><area nohref href=3 alt=""></map>'),
    "meta_refresh": _page('<meta http-equiv=refresh content="5; URL=\'/next\'"><a href=1>x</a>'),
    "uppercase": _page('<A HREF="HTTPS://EX.COM/PATH" REL="NOFOLLOW">UP</A><ArEa HrEf=x>'),
    "crlf": (b'<a href="/a\r\nb">x\r\ny</a>\r<a\rhref=2\r>z</a>', UTF8),
    "slashes_in_tag": _page("<a/href=1/rel=nofollow/>x</a><a //href='2'/ /rel=x>y</a><a'href=3>z</a><a =href=4 href=5>w</a><a \"href=6>v</a>"),
    "select_and_option": _page("<select><a href=1>1</a><option><b><a href=2>2</a></b></option></select><a href=3>3</a>"),
    "button_scope": _page("<p><button><p><a href=1>1</p></button></p><a href=2>2</a></p>"),
    "headings_nested": _page("<h1><a href=1>1<h2><a href=2>2</h1></h2><a href=3>3"),
    "form_nesting": _page("<form action=1><div><form action=2><a href=x>x</a></form></div><a href=y>y</a></form>"),
    "deep_formatting": _page("<b>" * 30 + "<p>" * 5 + "<a href=1>x</a>" + "</b>" * 10 + "<a href=2>y"),
    "no_markup": _page("just text"),
    "empty": (b"", UTF8),
    "image_tag": _page('<image href=x><a href=1><image alt=i></a><isindex><a href=2>2</a>'),
    "ping_and_download": _page('<a href=/d download ping="/p">d</a><link rel=stylesheet href=s><a name=n>n</a><a id=i href="#i">i</a>'),
    "windows_1252_fallback": (b'<a href="?q=\xe9&x=\x80\x81#\xe9">\x93caf\xe9\x94 \x81</a>', HTML),
    "windows_1252_path": (b'<meta charset=iso-8859-1><a href="/\xe9?\xe9">\xe9</a><a href="?q=&#8364;&#12354;">x</a><a href="mailto:?subject=\xe9">m</a><a href="ws://h/?\xe9">w</a>', HTML),
    "koi8": ('<meta charset=koi8-r><a href="/путь?й=ц#ы">Ссылка</a><a href="https://пример.рф/?я">х</a>'.encode("koi8-r"), HTML),
    "shift_jis": ('<meta charset=shift_jis><title>表示</title><a href="/表?q=表示ソ&x=①髙">ソース表</a>'.encode("cp932"), HTML),
    "euc_jp": ('<meta charset=euc-jp><a href="/日?q=日本～−">日本～</a>'.encode("euc_jp", "ignore"), HTML),
    "iso_2022_jp": ('<meta charset=iso-2022-jp><a href="?q=日本">日本語</a>'.encode("iso2022_jp"), HTML),
    "gbk": ('<meta charset=gb2312><a href="?q=中文€&y=é">中文</a>'.encode("gbk", "ignore") + b'<a href="?\x80">\x80</a>', HTML),
    "gb18030": ('<meta charset=gb18030><a href="?q=中é😀">中😀</a>'.encode("gb18030"), HTML),
    "big5": ('<meta charset=big5><a href="?q=中文許功蓋">許功蓋</a>'.encode("big5"), HTML),
    "euc_kr": ('<meta charset=euc-kr><a href="?q=한국똠">한국똠</a>'.encode("cp949"), HTML),
    "utf_16_bom": ("\ufeff<a href='?q=é'>é</a>".encode("utf-16-le"), HTML),
    "utf_16_be_header": ("<a href='?q=é'>é</a>".encode("utf-16-be"), "text/html; charset=utf-16be"),
    "utf_8_bom_over_header": ("\ufeff<a href='?q=é'>é</a>".encode(), "text/html; charset=koi8-r"),
    "utf_8_invalid": (b'<a href="?q=\xff\xc3\x28\xe2\x82\xf0\x9f\x98">a\xffb\xe2\x82c\xf0\x9f\x98d\xed\xa0\x80e\xc0\xafe</a>', UTF8),
    "x_user_defined": (b'<a href="?q=\xe9">\xe9</a>', "text/html; charset=x-user-defined"),
    "macintosh": (b'<a href="?q=\x8e">\x8e\xdb</a>', "text/html; charset=macintosh"),
    "windows_874": (b'<a href="?q=\xa1">\xa1\x81</a>', "text/html; charset=tis-620"),
    "replacement": (b'<a href="x">x</a>', "text/html; charset=iso-2022-kr"),
    "hebrew_visual": (b'<a href="?q=\xe0">\xe0\xe1</a>', "text/html; charset=iso-8859-8"),
    "late_meta": (b"<head><title>" + b"x" * 2000 + b"</title><meta charset=koi8-r></head><a href='?\xc1'>\xc1</a>", HTML),
    "title_corners": _page("<svg><title>svg</title></svg><title>  a \n b &amp; <b>c</b></title><title>second</title><a href=x>x</a>"),
    "title_in_body": _page("<body><p><title>in body</title><a href=x>x</a>"),
    "many_links": _page("".join(f'<a href="/p/{n}?x={n}#y" rel="r{n}">link {n}</a>\n' for n in range(3000))),
    "lists_and_breaks": _page("<a href=1><span>a<br>b</span><br/>c</a><a href=2>a<br> <br>b</a><a href=3><dl><dt>t<dd>d</dl></a><a href=4>x<details>y</details></a>"),
    "inline_styles": _page('<a href=1><span style="display:block">a</span><span style="display:block">b</span></a><a href=2><div style="display:inline">a</div><div style="display:inline">b</div></a><a href=3><span style="display:inline-block">a</span>b</a><a href=4 style="text-transform:uppercase">low</a><a href=5 style="display:contents">c</a>'),
    # found by the fuzz against Chromium (tests/bench/chromium_fuzz.py), minimised
    "details_around": _page("<details><summary><a href=1>s</a></summary><a href=2>closed</a><details open><a href=3>in closed</a></details></details><details open><a href=4>open</a></details><div style=display:none><details><a href=5>gone <br>first</a></details></div>"),
    "fallback_around": _page("<dialog><a href=1>a<script>s</script></a></dialog><dialog open><a href=2>b<script>s</script></a></dialog><video><a href=3>v<b hidden>w</b></a></video><meter><a href=4>m<p>n</p></a></meter><ruby><rp><a href=5>r<i hidden>p</i></a></rp></ruby><datalist><a href=6>d<i hidden>l</i></a></datalist>"),
    "controls_begin_anew": _page("<p style=text-transform:uppercase><a href=1>a<button>b</button></a><button>x<a href=2>c</a></button><a href=3>a<button style=text-transform:uppercase>b</button></a></p>"),
    "math_out_of_math": _page("<a href=1>x<mi>a</mi>o<mo>p</a><a href=2>x<math><mi>ab</mi><mo>+</mo></math>o</a>"),
    "text_transform": _page("<div style=text-transform:uppercase><a href=1>a<b style='text-transform:none'>b</b>ß</a></div><a href=2>x<i style=text-transform:lowercase>İI</i></a><p style='text-transform:capitalize'><a href=3>don't so\u00adft a-b ﬁx _z é1a \u201cq</a></p>"),
    "atomic_inlines": _page("<a href=1>a<button> b </button>c</a><a href=2>a <span style=display:inline-block> b </span> c</a><a href=3>x<span style='float:left'>y</span>z</a><a href=4>x<img style='display:block' alt=i>y</a><a href=5>a<select>no<option>o<optgroup label=l>g<option>p</select></a>"),
    "zero_width_space": _page("<a href=1>a\u200b\nb</a><a href=2>a\n\u200bb</a><a href=3>a\u200b b</a><a href=4>日本\n語\u3000</a><a href=5><i>a\u200b</i>\n b</a>"),
    "math_text": _page("<a href=1>x<math>no<mi>yz</mi><mtext> t</mtext></math></a>"),
    "style_cascade": _page("<a href=1>a<b style='display:none;display:block'>b</b><b style='display:none!important;display:block'>c</b><b style='display:bogus'>d</b><b style='/*display:none*/color:red'>e</b><b hidden style=display:inline>f</b><b style='visibility:hidden;visibility:visible'>g</b></a>"),
    "xhtml": _page(
        '<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">'
        '<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="de"><head><title>\u00e9</title><meta http-equiv="Content-Type" content="text/html; charset=koi8-r"/>'
        '<script src="/s.js" title="a &gt; b"/><style/><base href="/b/"/></head><body><a id="top"/><p/><iframe src="i"/><textarea/>'
        '<a href="1?\u00e9" rel="nofollow">o\u00e9</a><div><![CDATA[<a href="c">x</a>]]></div><script>//<![CDATA[\n"<a href=\'s\'>";\n//]]></script>'
        '<!-- <p/> <a href="k">k</a> --><a href="2"><img src="x" alt="al/>t"/></a><a href="3\n4"><b/>t<br/>u&nbsp;</a></body></html>', XHTML),
    "xhtml_declared": _page('<?xml version="1.0" encoding="koi8-r"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body><a href="1?\u0438">\u0438</a></body></html>', XHTML, "koi8-r"),
    "xhtml_header": _page('<html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title><script/></head><body><a href="1">\u0438</a></body></html>', XHTML + "; charset=windows-1251", "windows-1251"),
    "style_syntax": _page("<a href=1>a<b style='background:url(data:x;display:none;y)'>b</b><b style='content:\";display:none;\"'>c</b><b style='x:(;display:none;)'>d</b><b style='x:{;display:none;}'>e</b><b style='dis\\70lay:none'>f</b><b style='x:);display:none'>g</b><b style='x:url(//c/*);display:none'>h</b><b style='x:\"a\\\";display:none;\"'>i</b><b style='x:\"\n;display:none'>j</b><b style='x:[;display:none'>k</b></a>"),
    "inline_button": _page("<a href=1>a<button style=display:inline> b </button></a><a href=2>a<marquee style=display:inline> b </marquee>c</a><a href=3>a<button style=display:contents> b </button>c</a>"),
    "math_names_in_html": _page("<a href=1>a<mo>b</mo>c<mtext>d</mtext></a>"),
    "until_found": _page("<div hidden=until-found><a href=1>x</a></div><a href=2 hidden=until-found>y</a>"),
    "pipes": _page("<a href='/a|b?c|d#e|f'>1</a><a href='x|y'>2</a><a href='foo://h/p|q'>3</a><a href='foo:p|q'>4</a><a href='http://h.example/it\u2019s|x'>5</a>"),
    "base_with_pipe": _page("<base href='/a|b/'><a href=x>1</a><a href=?q>2</a>"),
}  # fmt: skip
